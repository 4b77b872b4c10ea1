"""What the device's memory gives, and what kernels take beside their least bytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from bench.gpu_check.raw_cases import raw_matrix
from bench.gpu_check.target import Target
from pantheon.engine.kernels.causal_conv import cases as conv_cases
from pantheon.engine.kernels.causal_conv.fused import fused_conv
from pantheon.engine.kernels.gated_delta_rule import cases as delta_cases
from pantheon.engine.kernels.gated_delta_rule.fused_step import fused_step
from pantheon.engine.kernels.packed_matmul import cases as product_cases
from pantheon.engine.kernels.paged_attention import cases as attention_cases
from pantheon.engine.kernels.paged_attention.flash_decode import flash_decode
from pantheon.engine.kernels.row_wise import cases as row_cases
from pantheon.engine.kernels.row_wise import pallas

_Arrays = TypeVar("_Arrays")
_SAMPLES: Final = 5
_DECODING: Final = attention_cases.Case(
    "decode of eight rows, 2048 tokens each", 1, 32, 8, 128, 64, (2048,) * 8
)
"""Attention of Qwen3-8B."""


@dataclass(frozen=True, slots=True)
class KernelTime:
    """Seconds of one call among others on the device, and of its least bytes at the bandwidth."""

    name: str
    seconds: float
    least_bytes: int
    least_seconds: float

    def record(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "name": self.name,
            "seconds": self.seconds,
            "least_bytes": self.least_bytes,
            "least_seconds": self.least_seconds,
        }


def measure_bandwidth(target: Target) -> float:
    """Bytes per second that are read and written while a large array is copied."""
    values = target.sizes.bandwidth_bytes // 4
    array = jax.device_put(np.zeros(values, np.float32), target.device)
    copied = jax.jit(partial(_copied, times=target.sizes.chained))
    return 2 * int(array.nbytes) * target.sizes.chained / _best_seconds(copied, (array,))


def kernel_times(target: Target, bytes_per_s: float) -> Iterator[KernelTime]:
    """Kernels at the sizes of real models; on a CPU at those of their smallest cases."""
    for name, kernel, arguments, least in _kernels(target):
        on_device = jax.device_put(tuple(arguments), target.device)
        seconds = _seconds(kernel, on_device, target)
        yield KernelTime(name, seconds, least, least / bytes_per_s)


def _kernels(
    target: Target,
) -> Iterator[tuple[str, Callable[..., Any], Sequence[np.ndarray], int]]:
    """Name, kernel, arguments and the bytes of what is read and written once."""
    interpret = not target.is_gpu
    large = target.is_gpu
    attention = _DECODING if large else attention_cases.CASES[0]
    query, keys, values, *numbers = attention.arguments()
    pages = (keys.astype(np.float16), values.astype(np.float16))
    held = 2 * sum(attention.lengths) * attention.kv_heads * attention.head_dim * 2
    yield (
        f"paged_attention, float16: {attention.name}",
        partial(flash_decode, scale=attention.head_dim**-0.5, interpret=interpret),
        (query, *pages, *numbers),
        held + 2 * query.nbytes,
    )
    delta = (delta_cases.COMPILED if large else delta_cases.CASES)[0]
    arguments = delta.arguments()
    state = arguments[-1].nbytes
    yield (
        f"gated_delta_rule: {delta.name}",
        partial(fused_step, interpret=interpret),
        arguments,
        sum(one.nbytes for one in arguments) + state + arguments[2].nbytes,
    )
    conv = (conv_cases.COMPILED if large else conv_cases.CASES)[0]
    arguments = conv.arguments()
    yield (
        f"causal_conv: {conv.name}",
        partial(fused_conv, interpret=interpret),
        arguments,
        sum(one.nbytes for one in arguments) + arguments[0].nbytes + arguments[2].nbytes,
    )
    rows = (row_cases.COMPILED if large else row_cases.CASES)[0]
    x, added = rows.normal(1, rows.hidden), rows.normal(2, rows.hidden)
    weight = rows.normal(3, rows.hidden)[0, 0]
    yield (
        f"add_rms_norm: {rows.name}",
        lambda x, added, weight: pallas.add_rms_norm(x, added, weight, 1e-5, interpret=interpret),
        (x, added, weight),
        4 * x.nbytes + weight.nbytes,
    )
    if large:
        yield from _raw_kernels()


def _raw_kernels() -> Iterator[tuple[str, Callable[..., Any], Sequence[np.ndarray], int]]:
    from pantheon.engine.kernels.packed_matmul.triton_product import raw_product

    for type in ("Q4_K", "Q6_K"):
        for case in product_cases.RAW_MODEL_CASES:
            data, _ = raw_matrix(type, (case.outputs,), case.inputs)
            x = np.ones((case.rows, case.inputs), jnp.bfloat16 if case.rows > 8 else np.float32)
            yield (
                f"raw_product, {type}: {case.name}",
                partial(raw_product, type=type),
                (x, data),
                data.nbytes + x.nbytes + case.rows * case.outputs * 4,
            )


def _copied(array: jax.Array, times: int) -> jax.Array:
    """An array that was read and written so many times."""
    for _ in range(times):
        array = _kept(array + 1)
    return array


def _seconds(kernel: Callable[..., Any], arguments: Sequence[jax.Array], target: Target) -> float:
    """Seconds of a call among some of them in one program."""

    def chain(*arguments: jax.Array) -> Any:
        # All results are asked for, and no two calls are of the same arguments.
        results = []
        for _ in range(target.sizes.chained):
            results.append(kernel(*arguments))
            arguments = _kept(arguments)
        return results

    program = jax.jit(chain, compiler_options=target.compiler_options)
    return _best_seconds(program, arguments) / target.sizes.chained


def _kept(arrays: _Arrays) -> _Arrays:
    """The same arrays, of which XLA does not know that they are."""
    kept: _Arrays = jax.lax.optimization_barrier(arrays)  # type: ignore[no-untyped-call]
    return kept


def _best_seconds(program: Callable[..., Any], arguments: Sequence[jax.Array]) -> float:
    jax.block_until_ready(program(*arguments))  # type: ignore[no-untyped-call]
    samples = []
    for _ in range(_SAMPLES):
        began = time.perf_counter()
        jax.block_until_ready(program(*arguments))  # type: ignore[no-untyped-call]
        samples.append(time.perf_counter() - began)
    return min(samples)
