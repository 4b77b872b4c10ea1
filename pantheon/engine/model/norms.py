"""Normalisation layers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from pantheon.engine.kernels import row_wise


def rms_norm(
    x: Float[Array, "*batch hidden"],
    weight: Float[Array, " hidden"],
    epsilon: float,
    live: Int[Array, " bounds"] | None = None,
    *,
    native: bool = False,
) -> Float[Array, "*batch hidden"]:
    """Root mean square layer norm over the last axis (Zhang and Sennrich, 2019).

    Args:
        live: which tokens are no padding, see `row_wise`; the first two axes are then theirs. What
            comes out for padding means nothing.
        native: by the native kernels, which must be there.
    """
    if native:
        return row_wise.rms_norm(x, weight, epsilon, live)
    mean_square = jnp.mean(jnp.square(x), axis=-1, keepdims=True)
    return x * jax.lax.rsqrt(mean_square + epsilon) * weight


def add_rms_norm(
    x: Float[Array, "batch time hidden"],
    delta: Float[Array, "batch time hidden"],
    weight: Float[Array, " hidden"],
    epsilon: float,
    live: Int[Array, " bounds"] | None = None,
    *,
    native: bool = False,
) -> tuple[Float[Array, "batch time hidden"], Float[Array, "batch time hidden"]]:
    """`x + delta`, and the norm of that; see `rms_norm`."""
    if native:
        return row_wise.add_rms_norm(x, delta, weight, epsilon, live)
    total = x + delta
    return total, rms_norm(total, weight, epsilon)


def l2_norm(x: Float[Array, "*batch dim"], epsilon: float) -> Float[Array, "*batch dim"]:
    """Each vector along the last axis made of length one."""
    return x * jax.lax.rsqrt(jnp.sum(jnp.square(x), axis=-1, keepdims=True) + epsilon)
