"""Arrays of zeros, as many and as large as the memory of a model."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp


def zeros(
    shapes: Sequence[tuple[int, ...]], dtype: jnp.dtype, *, native: bool
) -> tuple[jax.Array, ...]:
    """An array of zeros for each shape.

    XLA writes the zeros, which for gigabytes takes seconds in which nothing can begin. The native
    library gives memory that the system hands out as zeros when it is touched, and touches it in
    the background, so that what is left for others is soon known.

    Args:
        native: whether the native library is there and to be used.
    """
    if not (native and shapes):
        return tuple(jnp.zeros(shape, dtype) for shape in shapes)
    # In one call: XLA makes one of several that are alike, and copies its result.
    results = [jax.ShapeDtypeStruct(shape, dtype) for shape in shapes]  # type: ignore[no-untyped-call]
    return tuple(jax.jit(lambda: jax.ffi.ffi_call("pantheon_zeros", results)())())
