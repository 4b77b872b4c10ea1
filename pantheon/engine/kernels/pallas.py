"""Pallas kernels, compiled for GPUs through Triton or interpreted on any device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as gpu

Ref: TypeAlias = Any
"""An array in the memory of the device, as a kernel sees it. JAX has no public type for it."""


def launch(
    kernel: Callable[..., None],
    arguments: Sequence[jax.Array],
    outputs: Sequence[jax.ShapeDtypeStruct],
    *,
    grid: tuple[int, ...],
    warps: int,
    stages: int,
    interpret: bool,
) -> tuple[jax.Array, ...]:
    """Run a kernel over whole arrays, which its programs address themselves.

    Args:
        kernel: takes a ref for each argument, then one for each output. Profiles show its name.
        grid: programs along each axis, three at most.
        warps: of a program, of 32 threads each.
        stages: how many passes of a loop are in flight.
        interpret: step by step in XLA, on any device, instead of compiled for a GPU.
    """
    if 0 in grid:
        raise ValueError(f"{kernel.__name__}: expected a grid of one program or more, got {grid}")
    call: Callable[..., tuple[jax.Array, ...]] = pl.pallas_call(
        kernel,
        out_shape=tuple(outputs),
        grid=grid,
        name=kernel.__name__,
        interpret=interpret,
        compiler_params=gpu.CompilerParams(num_warps=warps, num_stages=stages),
    )
    return call(*arguments)


def power_of_two(size: int) -> int:
    """The smallest that is no less than `size`; Triton's arrays have no other sizes.

    Sixteen at least, which is what the tensor cores take.
    """
    return max(16, 1 << (size - 1).bit_length())


def masked_load(ref: Ref, mask: jax.Array, other: float | int = 0) -> jax.Array:
    """What a ref holds where `mask` is true, `other` elsewhere: nothing is read there.

    An index past the end of an axis is an array of indices: JAX refuses such slices from 0.12 on.
    """
    loaded: jax.Array = gpu.load(ref, mask=mask, other=jnp.asarray(other, ref.dtype))
    return loaded


def masked_store(ref: Ref, value: jax.Array, mask: jax.Array) -> None:
    """Store where `mask` is true."""
    gpu.store(ref, value, mask=mask)
