"""The product of activations with a weight matrix."""

from __future__ import annotations

from typing import Final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from pantheon.engine.model.packed import PackedMatrix, Weight, values_of

PIECE_BYTES: Final = 1 << 20
"""Float32 bytes of a weight that are unpacked at a time: what the caches hold. Measured on CPU
with a matrix of 4096 x 2048, the whole at once takes two to four times as long."""


def linear(x: Float[Array, "*batch inputs"], weight: Weight) -> Float[Array, "*batch outputs"]:
    """`x` times the transpose of `weight`, which is stored as GGUF stores it: a row an output.

    A weight that is not float32 is unpacked inside the step, some of its rows at a time.
    """
    rows = x.reshape(-1, x.shape[-1])
    if isinstance(weight, PackedMatrix) or weight.dtype != jnp.float32:
        product = _by_pieces(weight, rows)
    else:
        product = _product(weight, rows)
    # Without the barrier XLA turns the transposed product into the slower one.
    product = jax.lax.optimization_barrier(product)  # type: ignore[no-untyped-call]
    return jnp.reshape(product.T, (*x.shape[:-1], weight.shape[0]))


def late_zero(rows: Float[Array, "rows inputs"]) -> Int[Array, ""]:
    """A zero that XLA cannot make before `rows` are there: no number has 64 bits set."""
    bits = jax.lax.bitcast_convert_type(rows[0, 0], jnp.int32)
    return jax.lax.population_count(bits) >> 6


def _product(
    weight: Float[Array, "outputs inputs"], rows: Float[Array, "rows inputs"]
) -> Float[Array, "outputs rows"]:
    """Full float32 products: the tolerances of the reference data leave no room for less.

    The weight stands on the left: measured on CPU, XLA multiplies 2 to 8 activation rows two to
    four times faster this way, and more rows no slower.
    """
    return jnp.einsum("oi,ni->on", weight, rows, precision=jax.lax.Precision.HIGHEST)


def _by_pieces(weight: Weight, rows: Float[Array, "rows inputs"]) -> Float[Array, "outputs rows"]:
    outputs, inputs = weight.shape
    # At least two: a loop of one pass is no loop, and XLA may run its content ahead of need.
    pieces = max(-(-outputs * inputs * 4 // PIECE_BYTES), 2)
    size = -(-outputs // pieces)

    def taken(index: Int[Array, ""]) -> Weight:
        # The last piece begins earlier where they do not come out even: both slices are moved
        # back inside their arrays, so that some outputs are computed twice.
        piece: Weight = jax.tree.map(
            lambda array: jax.lax.dynamic_slice_in_dim(array, index * size, size), weight
        )
        return piece

    def add(
        index: Int[Array, ""], carried: tuple[Weight, Float[Array, "outputs rows"]]
    ) -> tuple[Weight, Float[Array, "outputs rows"]]:
        piece, product = carried
        found = _product(values_of(piece), rows)
        product = jax.lax.dynamic_update_slice_in_dim(product, found, index * size, axis=0)
        return taken(index + 1), product

    # What the loop begins with is made of `rows`, so that it is made when they are there: XLA would
    # make the beginnings of all products of a program at its start, and hold them. Every entry of
    # the product is overwritten.
    anything = jnp.broadcast_to(rows[0, 0], (outputs, rows.shape[0]))
    zero = late_zero(rows)
    # A piece is carried from the pass before: taken where it is used, the slice would become part
    # of the loop that unpacks, whose loads XLA then does not run on vectors (up to 20 times
    # slower).
    product: jax.Array = jax.lax.fori_loop(0, pieces, add, (taken(zero), anything))[1]
    return product
