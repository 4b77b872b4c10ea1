"""Pallas kernels, compiled for GPUs through Triton or interpreted on any device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as gpu
from jaxtyping import Array, Float, Int

Ref: TypeAlias = Any
"""An array in the memory of the device, as a kernel sees it. JAX has no public type for it."""

_HIGHEST: Final = jax.lax.Precision.HIGHEST
_THREE_PASSES: Final = jax.lax.DotAlgorithmPreset.TF32_TF32_F32_X3


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


def barrier(*, interpret: bool) -> None:
    """What one thread of a program has stored before, all of them read after.

    Where a program is interpreted it is one thread.
    """
    if not interpret:
        gpu.debug_barrier()


def span(start: int | Int[Array, ""], size: int) -> Int[Array, " size"]:
    """So many places of an axis. Those past its end are masked where they are read or stored."""
    return start + jnp.arange(size, dtype=jnp.int32)


def float32_dot(
    left: Float[Array, ...],
    right: Float[Array, ...],
    contracted: tuple[int, int] = (1, 0),
    *,
    interpret: bool,
) -> Float[Array, "rows columns"]:
    """A product of two float32 matrices, to about what float32 can hold.

    On a GPU three passes of the tensor cores over both parts of numbers split in two
    (3xTF32: Ootomo and Yokota, 2022), which no device that interprets has.

    Args:
        contracted: axes that are summed over.
        interpret: see `launch`.
    """
    product: jax.Array = jax.lax.dot_general(
        left,
        right,
        (((contracted[0],), (contracted[1],)), ((), ())),
        precision=_HIGHEST if interpret else _THREE_PASSES,
        preferred_element_type=jnp.float32,
    )
    return product
