"""The product of activations with a weight matrix."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def linear(
    x: Float[Array, "*batch inputs"], weight: Float[Array, "outputs inputs"]
) -> Float[Array, "*batch outputs"]:
    """`x` times the transpose of `weight`, which is stored as GGUF stores it: a row an output.

    Full float32 products: the tolerances of the reference data leave no room for less.
    """
    return jnp.einsum("...i,oi->...o", x, weight, precision=jax.lax.Precision.HIGHEST)
