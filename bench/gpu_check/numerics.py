"""Every kernel over its shared cases, on the device, beside its reference on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from bench.gpu_check.check import Check, largest_error
from bench.gpu_check.raw_cases import raw_checks
from bench.gpu_check.target import Target
from pantheon.engine.kernels.causal_conv import cases as conv_cases
from pantheon.engine.kernels.causal_conv.fused import fused_conv
from pantheon.engine.kernels.causal_conv.reference import reference as conv_reference
from pantheon.engine.kernels.gated_delta_rule import cases as delta_cases
from pantheon.engine.kernels.gated_delta_rule.fused_chunks import fused_chunks
from pantheon.engine.kernels.gated_delta_rule.fused_step import fused_step
from pantheon.engine.kernels.gated_delta_rule.reference import reference as delta_reference
from pantheon.engine.kernels.paged_attention import cases as attention_cases
from pantheon.engine.kernels.paged_attention.flash_decode import flash_decode
from pantheon.engine.kernels.paged_attention.flash_prefill import flash_prefill
from pantheon.engine.kernels.paged_attention.reference import reference as attention_reference
from pantheon.engine.kernels.row_wise import cases as row_cases
from pantheon.engine.kernels.row_wise import pallas

_FLOAT32: Final = 1e-4
"""Sums of some hundred terms in float32, in another order."""

_FLOAT16: Final = 4e-3
"""Pages, queries and weights rounded to 11 bits, of sums of some hundred terms."""

_EPSILON: Final = 1e-5


def numerics(target: Target) -> Iterator[Check]:
    """One check for each kernel, case and type."""
    count = target.sizes.cases
    for attention in attention_cases.CASES[:count]:
        yield from _attention(target, attention)
    for delta in delta_cases.CASES[:count]:
        fused = fused_step if delta.time == 1 else fused_chunks
        name = f"gated_delta_rule: {delta.name}"
        yield _compare(target, name, fused, delta_reference, delta.arguments(), _FLOAT32)
    for conv in conv_cases.CASES[:count]:
        name = f"causal_conv: {conv.name}"
        yield _compare(target, name, fused_conv, conv_reference, conv.arguments(), _FLOAT32)
    for rows in row_cases.CASES[:count]:
        yield from _row_wise(target, rows)
    if target.is_gpu:
        yield from raw_checks(target.device)


def _attention(target: Target, case: attention_cases.Case) -> Iterator[Check]:
    kernel = flash_decode if case.time == 1 else flash_prefill
    keywords = {"scale": case.head_dim**-0.5, "window": case.window}
    flash, exact = partial(kernel, **keywords), partial(attention_reference, **keywords)
    query, keys, values, *numbers = case.arguments()
    for dtype, tolerance in ((jnp.float32, _FLOAT32), (jnp.float16, _FLOAT16)):
        arguments = (query, keys.astype(dtype), values.astype(dtype), *numbers)
        # The same rounded pages, whose reference is exact.
        known = (query, *(np.asarray(one, np.float32) for one in arguments[1:3]), *numbers)
        name = f"paged_attention, {jnp.dtype(dtype).name}: {case.name}"
        yield _compare(target, name, flash, exact, arguments, tolerance, known)


def _row_wise(target: Target, case: row_cases.Case) -> Iterator[Check]:
    x, delta = case.normal(1, case.hidden), case.normal(2, case.hidden)
    weight = case.normal(3, case.hidden)[0, 0]
    gate, up = case.normal(4, case.inner), case.normal(5, case.inner)
    yield _compare(
        target,
        f"add_rms_norm: {case.name}",
        lambda x, delta, weight, interpret: pallas.add_rms_norm(
            x, delta, weight, _EPSILON, interpret=interpret
        ),
        lambda x, delta, weight: (x + delta, _rms_norm(x + delta, weight)),
        (x, delta, weight),
        _FLOAT32,
    )
    yield _compare(
        target,
        f"silu_product: {case.name}",
        pallas.silu_product,
        lambda gate, up: jax.nn.silu(gate) * up,
        (gate, up),
        _FLOAT32,
    )
    heads = case.normal(6, case.heads, case.head_dim)
    turns = case.normal(7, 2, case.turned)
    yield _compare(
        target,
        f"rotate: {case.name}",
        partial(pallas.rotate, neighbours=case.neighbours),
        partial(_rotate, neighbours=case.neighbours),
        (heads, turns),
        _FLOAT32,
    )


def _rms_norm(x: jax.Array, weight: jax.Array) -> jax.Array:
    mean_square = jnp.mean(x * x, axis=-1, keepdims=True)
    return x * jax.lax.rsqrt(mean_square + _EPSILON) * weight


def _rotate(x: jax.Array, turns: jax.Array, *, neighbours: bool) -> jax.Array:
    """Each pair times its cosine, and its other half times its sine."""
    turned = turns.shape[-1]
    part = x[..., :turned]
    if neighbours:
        swapped = part.reshape(*part.shape[:-1], -1, 2)[..., ::-1].reshape(part.shape)
    else:
        swapped = jnp.roll(part, turned // 2, axis=-1)
    cosines, sines = turns[:, :, None, 0], turns[:, :, None, 1]
    return jnp.concatenate([part * cosines + swapped * sines, x[..., turned:]], axis=-1)


def _compare(
    target: Target,
    name: str,
    kernel: Callable[..., Any],
    reference: Callable[..., Any],
    arguments: Sequence[np.ndarray],
    tolerance: float,
    known: Sequence[np.ndarray] | None = None,
) -> Check:
    """Run both, each on its device.

    Args:
        known: what the reference is given; the same where None.
    """
    on_device = jax.device_put(tuple(arguments), target.device)
    on_host = jax.device_put(tuple(arguments if known is None else known), target.host)
    compiled = jax.jit(
        partial(kernel, interpret=not target.is_gpu), compiler_options=target.compiler_options
    )
    found = compiled(*on_device)
    expected = jax.jit(reference)(*on_host)
    errors = [
        largest_error(np.asarray(ours, np.float32), np.asarray(theirs, np.float32))
        for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    ]
    return Check(name, float(np.max(errors)), tolerance)
