"""Normalisation layers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def rms_norm(
    x: Float[Array, "*batch hidden"], weight: Float[Array, " hidden"], epsilon: float
) -> Float[Array, "*batch hidden"]:
    """Root mean square layer norm over the last axis (Zhang and Sennrich, 2019)."""
    mean_square = jnp.mean(jnp.square(x), axis=-1, keepdims=True)
    return x * jax.lax.rsqrt(mean_square + epsilon) * weight


def l2_norm(x: Float[Array, "*batch dim"], epsilon: float) -> Float[Array, "*batch dim"]:
    """Each vector along the last axis made of length one."""
    return x * jax.lax.rsqrt(jnp.sum(jnp.square(x), axis=-1, keepdims=True) + epsilon)
