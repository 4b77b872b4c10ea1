"""Recurrent layers and row-wise operations at the sizes of models that an H200 serves."""

from __future__ import annotations

import functools
import math
from typing import Any, Final

import jax
import jax.numpy as jnp

from bench.ahead_of_time.compiled import CompiledKernel
from bench.ahead_of_time.job import Job
from bench.ahead_of_time.pallas import Cost, compiled_kernels
from pantheon.engine.kernels.causal_conv import cases as conv_cases
from pantheon.engine.kernels.causal_conv.fused import fused_conv
from pantheon.engine.kernels.gated_delta_rule import cases as delta_cases
from pantheon.engine.kernels.gated_delta_rule.fused_chunks import CHUNK, fused_chunks
from pantheon.engine.kernels.gated_delta_rule.fused_step import fused_step
from pantheon.engine.kernels.row_wise import cases as row_cases
from pantheon.engine.kernels.row_wise import pallas as row_wise

_EPSILON: Final = 1e-6


def jobs() -> tuple[Job, ...]:
    """The gated delta rule, the convolution and the row-wise operations, of every case."""
    return (
        *(functools.partial(delta_kernels, case) for case in delta_cases.COMPILED),
        *(functools.partial(conv_kernels, case) for case in conv_cases.COMPILED),
        *(functools.partial(row_kernels, case) for case in row_cases.COMPILED),
    )


def delta_kernels(case: delta_cases.Case, capability: int) -> list[CompiledKernel]:
    """`fused_step` for one token, else `fused_chunks`."""
    batch = len(case.spans)
    tokens = (batch, case.time, case.heads)
    query = _array(*tokens, case.key_dim)
    value = _array(*tokens, case.value_dim)
    gate = _array(*tokens)
    valid = _array(batch, case.time, dtype=jnp.bool_)
    # As the kernels read it.
    real = _array(batch, case.time, dtype=jnp.int32)
    state = _array(batch, case.heads, case.key_dim, case.value_dim)
    chunks = -(-case.time // CHUNK)
    square = _array(batch, case.heads, chunks, CHUNK, CHUNK)
    if case.time == 1:
        least = _size(query, query, value, value, gate, gate, real, state, state)
        costs = {"gated_delta_step": Cost(least)}
    else:
        solved = _size(query, query, gate, gate, real, square, square)
        added = _size(query, query, value, value, gate, real, square, square, state, state)
        costs = {"gated_delta_solve": Cost(solved), "gated_delta_chunks": Cost(added)}
    return compiled_kernels(
        fused_step if case.time == 1 else fused_chunks,
        (query, query, value, gate, gate, valid, state),
        capability,
        case=case.name,
        costs=costs,
    )


def conv_kernels(case: conv_cases.Case, capability: int) -> list[CompiledKernel]:
    """`fused_conv`."""
    batch = len(case.spans)
    x = _array(batch, case.time, case.channels)
    kernel = _array(case.channels, case.taps)
    before = _array(batch, case.taps - 1, case.channels)
    bounds = _array(batch, 2, dtype=jnp.int32)
    return compiled_kernels(
        fused_conv,
        (x, kernel, before, _array(batch, case.time, dtype=jnp.bool_)),
        capability,
        case=case.name,
        costs={"causal_conv": Cost(_size(x, x, kernel, before, before, bounds))},
    )


def row_kernels(case: row_cases.Case, capability: int) -> list[CompiledKernel]:
    """`rms_norm` of hidden states and of heads, `add_rms_norm`, `silu_product` and `rotate`."""
    x = _array(1, case.tokens, case.hidden)
    weight = _array(case.hidden)
    gate = _array(1, case.tokens, case.inner)
    heads = _array(1, case.tokens, case.heads, case.head_dim)
    by = _array(1, case.tokens, 2, case.turned)
    compiled = functools.partial(compiled_kernels, capability=capability, case=case.name)
    return [
        *compiled(
            functools.partial(row_wise.rms_norm, epsilon=_EPSILON),
            (x, weight),
            costs={"rms_norm_row": Cost(_size(x, weight, x))},
        ),
        *compiled(
            functools.partial(row_wise.rms_norm, epsilon=_EPSILON),
            (heads, _array(case.head_dim)),
            case=f"{case.name}, each head",
            costs={"rms_norm_row": Cost(_size(heads, _array(case.head_dim), heads))},
        ),
        *compiled(
            functools.partial(row_wise.add_rms_norm, epsilon=_EPSILON),
            (x, x, weight),
            costs={"add_rms_norm_row": Cost(_size(x, x, weight, x, x))},
        ),
        *compiled(
            row_wise.silu_product,
            (gate, gate),
            costs={"silu_product_tile": Cost(_size(gate, gate, gate))},
        ),
        *compiled(
            functools.partial(row_wise.rotate, neighbours=case.neighbours),
            (heads, by),
            costs={"rotate_heads": Cost(_size(heads, heads, by))},
        ),
    ]


def _array(*shape: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]


def _size(*arrays: jax.ShapeDtypeStruct) -> int:
    """Bytes of all of them."""
    return sum(math.prod(array.shape) * array.dtype.itemsize for array in arrays)
