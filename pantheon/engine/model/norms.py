"""Normalisation layers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from pantheon.engine.kernels import row_wise


def rms_norm(
    x: Float[Array, "*batch hidden"],
    weight: Float[Array, " hidden"],
    epsilon: float,
    *,
    native: bool = False,
) -> Float[Array, "*batch hidden"]:
    """Root mean square layer norm over the last axis (Zhang and Sennrich, 2019).

    Args:
        native: by the native kernels, which must be there.
    """
    if native:
        return row_wise.rms_norm(x, weight, epsilon)
    mean_square = jnp.mean(jnp.square(x), axis=-1, keepdims=True)
    return x * jax.lax.rsqrt(mean_square + epsilon) * weight


def l2_norm(x: Float[Array, "*batch dim"], epsilon: float) -> Float[Array, "*batch dim"]:
    """Each vector along the last axis made of length one."""
    return x * jax.lax.rsqrt(jnp.sum(jnp.square(x), axis=-1, keepdims=True) + epsilon)
