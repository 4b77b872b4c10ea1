"""Products of activations with weight matrices."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from pantheon.engine.kernels.implementation import Implementation
from pantheon.engine.kernels.packed_matmul import (
    PIECE_BYTES,
    InterleavedMatrix,
    product,
    product_by_pieces,
    products,
)
from pantheon.engine.model.gpu_products import gpu_product
from pantheon.engine.model.packed import PackedMatrix, Weight, values_of
from pantheon.engine.model.split import SplitMatrix, across_dies

__all__ = ["PIECE_BYTES", "linear", "linears"]


def linear(
    x: Float[Array, "*batch inputs"],
    weight: Weight,
    live: Int[Array, " bounds"] | None = None,
    *,
    implementation: Implementation = Implementation.XLA,
) -> Float[Array, "*batch outputs"]:
    """`x` times the transpose of `weight`, which is stored as GGUF stores it: a row an output.

    See `linears` for `live` and `implementation`.
    """
    if isinstance(weight, SplitMatrix):
        return across_dies(
            x,
            weight,
            lambda own: linear(own, weight.matrix, live, implementation=implementation),
        )
    return linears(x, (weight,), live, implementation=implementation)[0]


def linears(
    x: Float[Array, "*batch inputs"],
    weights: Sequence[Weight],
    live: Int[Array, " bounds"] | None = None,
    *,
    implementation: Implementation = Implementation.XLA,
) -> tuple[Float[Array, "*batch _outputs"], ...]:
    """`x` times the transpose of each weight. What is interleaved takes one call for all.

    Args:
        live: the first row of `x`, its leading axes as one, that is no padding, and one past the
            last. What comes out for padding means nothing; the native kernels spend no time on it.
            None for no padding.
        implementation: which matters to those that are not interleaved; see
            `packed_matmul.CHOSEN`.
    """
    rows = x.reshape(-1, x.shape[-1])
    native = [weight for weight in weights if isinstance(weight, InterleavedMatrix)]
    found = iter(products(rows, native, live) if native else ())

    def made(weight: Weight) -> Float[Array, "rows outputs"]:
        if isinstance(weight, InterleavedMatrix):
            return next(found)
        if implementation.is_gpu:
            return gpu_product(rows, _own(weight), implementation)
        return _in_xla(_own(weight), rows)

    return tuple(one.reshape(*x.shape[:-1], one.shape[-1]) for one in map(made, weights))


def _own(weight: Weight) -> Float[Array, "outputs inputs"] | PackedMatrix:
    """A weight whose product is that of one die."""
    if isinstance(weight, SplitMatrix | InterleavedMatrix):
        raise ValueError(f"linears: expected matrices of one die, got {type(weight).__name__}")
    return weight


def _in_xla(
    weight: Float[Array, "outputs inputs"] | PackedMatrix, rows: Float[Array, "rows inputs"]
) -> Float[Array, "rows outputs"]:
    """A weight that is not float32 is unpacked inside the step, some of its rows at a time."""
    if isinstance(weight, PackedMatrix) or weight.dtype != jnp.float32:
        found = product_by_pieces(weight, values_of, weight.shape[0], rows)
    else:
        found = product(weight, rows)
    # Without the barrier XLA turns the transposed product into the slower one.
    whole: jax.Array = jax.lax.optimization_barrier(found)  # type: ignore[no-untyped-call]
    return whole.T
