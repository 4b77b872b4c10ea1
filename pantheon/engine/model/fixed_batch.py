"""Parts of a layer that XLA computes in a batch of one size, whatever that of the decode step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import jax
import jax.numpy as jnp

_ROWS: Final = 8
"""Rows of the largest decode step."""

_Results = TypeVar("_Results")


def in_fixed_batch(
    function: Callable[..., _Results], *arrays: jax.Array | None, fixed: bool = True
) -> _Results:
    """The results of a function of rows, computed together with rows of zeros up to eight.

    XLA rounds differently in batches of other sizes: so a row is the same in decode steps of all
    sizes, bit for bit. The barriers keep what stands around from changing what is inside.

    Args:
        function: of arrays whose first axis is that of rows, to arrays like that. What it makes
            of rows of zeros is left out.
        arrays: with the same first axis; None is passed on.
        fixed: whether it matters; the function of the arrays as they are where it does not.
    """
    if not fixed:
        return function(*arrays)
    rows = next(array.shape[0] for array in arrays if array is not None)
    more = max(_ROWS - rows, 0)

    def filled(array: jax.Array) -> jax.Array:
        return jnp.pad(array, ((0, more), *((0, 0),) * (array.ndim - 1)))

    inputs = jax.lax.optimization_barrier(jax.tree.map(filled, arrays))  # type: ignore[no-untyped-call]
    results = jax.lax.optimization_barrier(function(*inputs))  # type: ignore[no-untyped-call]
    made: _Results = jax.tree.map(lambda result: result[:rows], results)
    return made
