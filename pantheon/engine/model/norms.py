"""Normalisation layers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from pantheon.engine.kernels import row_wise
from pantheon.engine.kernels.implementation import Implementation


def rms_norm(
    x: Float[Array, "*batch hidden"],
    weight: Float[Array, " hidden"],
    epsilon: float,
    live: Int[Array, " bounds"] | None = None,
    *,
    implementation: Implementation = Implementation.XLA,
) -> Float[Array, "*batch hidden"]:
    """Root mean square layer norm over the last axis (Zhang and Sennrich, 2019).

    Args:
        live: which tokens are no padding, see `row_wise`; the first two axes are then theirs. What
            comes out for padding means nothing.
        implementation: see `row_wise.CHOSEN`.
    """
    if implementation is Implementation.NATIVE:
        return row_wise.rms_norm(x, weight, epsilon, live)
    if implementation.is_gpu:
        # Imported here: Pallas would take a fifth of a second of every start on a CPU.
        from pantheon.engine.kernels.row_wise import pallas

        return pallas.rms_norm(x, weight, epsilon, live, interpret=implementation.is_interpreted)
    mean_square = jnp.mean(jnp.square(x), axis=-1, keepdims=True)
    return x * jax.lax.rsqrt(mean_square + epsilon) * weight


def add_rms_norm(
    x: Float[Array, "batch time hidden"],
    delta: Float[Array, "batch time hidden"],
    weight: Float[Array, " hidden"],
    epsilon: float,
    live: Int[Array, " bounds"] | None = None,
    *,
    implementation: Implementation = Implementation.XLA,
) -> tuple[Float[Array, "batch time hidden"], Float[Array, "batch time hidden"]]:
    """`x + delta`, and the norm of that; see `rms_norm`."""
    if implementation is Implementation.NATIVE:
        return row_wise.add_rms_norm(x, delta, weight, epsilon, live)
    if implementation.is_gpu:
        from pantheon.engine.kernels.row_wise import pallas

        return pallas.add_rms_norm(
            x, delta, weight, epsilon, live, interpret=implementation.is_interpreted
        )
    total = x + delta
    return total, rms_norm(total, weight, epsilon)


def l2_norm(x: Float[Array, "*batch dim"], epsilon: float) -> Float[Array, "*batch dim"]:
    """Each vector along the last axis made of length one."""
    return x * jax.lax.rsqrt(jnp.sum(jnp.square(x), axis=-1, keepdims=True) + epsilon)
