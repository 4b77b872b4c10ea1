"""Products with packed weights: the native kernels beside plain XLA."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

import jax
import jax.numpy as jnp
import numpy as np

from bench.comparison import Comparison
from pantheon.engine.gguf import TensorType, block_layout
from pantheon.engine.model import native_missing
from pantheon.engine.model.dequantize import PACKED_TYPES
from pantheon.engine.model.linear import linear
from pantheon.engine.model.packed import PackedMatrix, Weight
from pantheon.engine.model.read import native_matrix
from pantheon.engine.runner.compiler_options import compiler_options

_OUTPUTS: Final = 3072
_INPUTS: Final = 1024
_TYPES: Final = (
    *("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"),
    *("IQ4_NL", "IQ4_XS", "MXFP4"),
)
_ROWS: Final = (1, 8, 128)
_SAMPLE_WEIGHTS: Final = 1e8
"""Multiplied in a sample, so that one takes some tens of milliseconds."""


@dataclass(frozen=True, slots=True)
class _Sample:
    """A matrix of a type, as each side holds it."""

    name: str
    native: Weight
    plain: Weight


def compare_packed(rounds: int) -> tuple[Comparison, ...]:
    """Products a second, in 10^9 weights times rows, native beside XLA, in turns.

    Empty where there are no native kernels.
    """
    missing = native_missing()
    if missing is not None:
        print(f"no native kernels: {missing}")
        return ()
    return tuple(
        _compare(_sample(name), rows, rounds) for name in (*_TYPES, "F32") for rows in _ROWS
    )


def _compare(sample: _Sample, rows: int, rounds: int) -> Comparison:
    x = jnp.asarray(np.random.default_rng(1).standard_normal((rows, _INPUTS), np.float32))
    pairs = [(_compiled(x, weight), weight) for weight in (sample.native, sample.plain)]
    samples = [tuple(_rate(product, x, weight) for product, weight in pairs) for _ in range(rounds)]
    ours, theirs = zip(*samples, strict=True)
    return Comparison(f"{sample.name}, {rows} rows", ours, theirs)


def _sample(name: str) -> _Sample:
    if name == "F32":
        drawn = np.random.default_rng(0).standard_normal((_OUTPUTS, _INPUTS), np.float32)
        native = native_matrix(TensorType.F32, drawn.view(np.uint8), _INPUTS)
        return _Sample(name, native, jnp.asarray(drawn))
    type = next(one for one in PACKED_TYPES if one.name == name)
    values, size = block_layout(type)
    # Scales of one half: bytes at random would make numbers that processors are slow with.
    packed = np.full((_OUTPUTS, _INPUTS // values * size), 0x38, np.uint8)
    plain = PackedMatrix(jnp.asarray(packed), type, _INPUTS)
    return _Sample(name, native_matrix(type, packed, _INPUTS), plain)


def _compiled(x: jax.Array, weight: Weight) -> jax.stages.Compiled:
    return jax.jit(linear).lower(x, weight).compile(compiler_options())


def _rate(product: jax.stages.Compiled, x: jax.Array, weight: Weight) -> float:
    work = x.shape[0] * _OUTPUTS * _INPUTS
    calls = max(int(_SAMPLE_WEIGHTS / work), 1)
    start = time.perf_counter()
    for _ in range(calls):
        product(x, weight).block_until_ready()
    return calls * work / (time.perf_counter() - start) / 1e9
