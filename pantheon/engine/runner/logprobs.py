"""Log-probabilities of a sampled token and of the likeliest ones at its place."""

from __future__ import annotations

from typing import Final, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from pantheon.engine.model.fixed_batch import in_fixed_batch

MAX_ALTERNATIVES: Final = 20
"""Most alternatives of a token (reference, request body, `top_logprobs`)."""


class Logprobs(NamedTuple):
    """Natural logarithms of probabilities, before any sampling parameter is applied.

    Attributes:
        chosen: of the sampled token.
        top: of the likeliest tokens, best first; their ids in `top_tokens`.
    """

    chosen: Float[Array, " batch"]
    top: Float[Array, "batch alternatives"]
    top_tokens: Int[Array, "batch alternatives"]


def logprobs(
    logits: Float[Array, "batch vocabulary"],
    tokens: Int[Array, " batch"],
    wanted: Bool[Array, ""],
) -> Logprobs:
    """Log-probabilities of a step; zeros where no row wants them."""
    batch, vocabulary = logits.shape
    count = min(MAX_ALTERNATIVES, vocabulary)

    def compute() -> Logprobs:
        total = in_fixed_batch(lambda rows: jax.nn.logsumexp(rows, axis=-1), logits)
        chosen = jnp.take_along_axis(logits, tokens[:, None], axis=1)[:, 0]
        top, top_tokens = jax.lax.top_k(logits, count)
        return Logprobs(chosen - total, top - total[:, None], top_tokens.astype(jnp.int32))

    def skip() -> Logprobs:
        shape = (batch, count)
        return Logprobs(
            jnp.zeros(batch, logits.dtype),
            jnp.zeros(shape, logits.dtype),
            jnp.zeros(shape, jnp.int32),
        )

    result: Logprobs = jax.lax.cond(wanted, compute, skip)
    return result
