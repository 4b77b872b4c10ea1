"""The greedy choice, which every step makes of its scores."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from pantheon.engine.kernels import row_wise
from pantheon.engine.kernels.implementation import Implementation


def best_tokens(
    logits: Float[Array, "batch vocabulary"],
    *,
    implementation: Implementation = Implementation.XLA,
) -> tuple[Int[Array, " batch"], Bool[Array, " batch"]]:
    """The token with the largest logit of each row, and whether the row's logits are numbers.

    Of tokens that tie the first. A row whose largest logit is not finite has no numbers: -inf of
    padding is not the largest, and one that is no number makes the whole row so; its token means
    nothing.

    Args:
        implementation: the native kernels have it; all others take plain XLA.
    """
    if implementation is Implementation.NATIVE:
        return row_wise.largest(logits)
    best = jnp.argmax(logits, axis=-1).astype(jnp.int32)
    return best, jnp.isfinite(jnp.max(logits, axis=-1))
