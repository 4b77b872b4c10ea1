"""The product in plain XLA: the definition that the native kernels are tested against, and what
runs where they are missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

PIECE_BYTES: Final = 1 << 20
"""Float32 bytes of a weight that are unpacked at a time: what the caches hold. Measured on CPU
with a matrix of 4096 x 2048, the whole at once takes two to four times as long."""

_Packed = TypeVar("_Packed")
"""A pytree of arrays that have a row for each output."""


def late_zero(rows: Float[Array, "rows inputs"]) -> Int[Array, ""]:
    """A zero that XLA cannot make before `rows` are there: no number has 64 bits set."""
    bits = jax.lax.bitcast_convert_type(rows[0, 0], jnp.int32)
    return jax.lax.population_count(bits) >> 6


def product(
    weight: Float[Array, "outputs inputs"], rows: Float[Array, "rows inputs"]
) -> Float[Array, "outputs rows"]:
    """Full float32 products: the tolerances of the reference data leave no room for less.

    The weight stands on the left: measured on CPU, XLA multiplies 2 to 8 activation rows two to
    four times faster this way, and more rows no slower.
    """
    return jnp.einsum("oi,ni->on", weight, rows, precision=jax.lax.Precision.HIGHEST)


def product_by_pieces(
    packed: _Packed,
    unpack: Callable[[_Packed], Float[Array, "_outputs inputs"]],
    outputs: int,
    rows: Float[Array, "rows inputs"],
) -> Float[Array, "outputs rows"]:
    """The product with a matrix that is unpacked inside the step, some of its rows at a time.

    Args:
        unpack: `packed`, or some of its rows, to float32.
        outputs: rows of the matrix.
    """
    # At least two: a loop of one pass is no loop, and XLA may run its content ahead of need.
    pieces = max(-(-outputs * rows.shape[1] * 4 // PIECE_BYTES), 2)
    size = -(-outputs // pieces)

    def taken(index: Int[Array, ""]) -> _Packed:
        # The last piece begins earlier where they do not come out even: both slices are moved
        # back inside their arrays, so that some outputs are computed twice.
        piece: _Packed = jax.tree.map(
            lambda array: jax.lax.dynamic_slice_in_dim(array, index * size, size), packed
        )
        return piece

    def add(
        index: Int[Array, ""], carried: tuple[_Packed, Float[Array, "outputs rows"]]
    ) -> tuple[_Packed, Float[Array, "outputs rows"]]:
        piece, found = carried
        part = product(unpack(piece), rows)
        found = jax.lax.dynamic_update_slice_in_dim(found, part, index * size, axis=0)
        return taken(index + 1), found

    # What the loop begins with is made of `rows`, so that it is made when they are there: XLA would
    # make the beginnings of all products of a program at its start, and hold them. Every entry of
    # the product is overwritten.
    anything = jnp.broadcast_to(rows[0, 0], (outputs, rows.shape[0]))
    zero = late_zero(rows)
    # A piece is carried from the pass before: taken where it is used, the slice would become part
    # of the loop that unpacks, whose loads XLA then does not run on vectors (up to 20 times
    # slower).
    whole: jax.Array = jax.lax.fori_loop(0, pieces, add, (taken(zero), anything))[1]
    return whole
