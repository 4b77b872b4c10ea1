"""Changing logits before a token is chosen: bias, penalties, grammar mask.

The order is fixed: bias and penalties first, the mask last, so that no bias can bring back a
token that the grammar refuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt

from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.token_mask import TokenMask


class RowHistory(NamedTuple):
    """What rows remember between steps; one row more than there are, which takes padding.

    Attributes:
        counts: how often each token was sampled in the sequence of each row.
        bias: what is added to each logit.
    """

    counts: Int[Array, "rows vocabulary"]
    bias: Float[Array, "rows vocabulary"]


class AdjustmentBatch(NamedTuple):
    """What changes the logits of a step, one entry a row.

    Attributes:
        mask: tokens allowed, as in `TokenMask`.
    """

    presence_penalty: Float[Array, " batch"]
    frequency_penalty: Float[Array, " batch"]
    mask: UInt[Array, "batch words"]


def mask_words(vocabulary: int) -> int:
    """Words of a mask over so many tokens."""
    return -(-vocabulary // 32)


def batch_adjustments(
    rows: Sequence[RowSampling], masks: Sequence[TokenMask | None], batch: int, vocabulary: int
) -> AdjustmentBatch:
    """Pack rows into host arrays of `batch` entries; a mask of None allows every token.

    A mask may be shorter than the vocabulary, whose last rows can be padding: they are refused.
    """
    presence = np.zeros(batch, np.float32)
    frequency = np.zeros(batch, np.float32)
    mask = np.full((batch, mask_words(vocabulary)), 0xFFFFFFFF, np.uint32)
    for index, (row, allowed) in enumerate(zip(rows, masks, strict=True)):
        presence[index] = row.presence_penalty
        frequency[index] = row.frequency_penalty
        if allowed is not None:
            mask[index] = 0
            mask[index, : len(allowed)] = allowed
    return AdjustmentBatch(presence, frequency, mask)  # type: ignore[arg-type]


def bias_vector(
    pairs: Sequence[tuple[int, float]], vocabulary: int
) -> Float[np.ndarray, " vocabulary"]:
    """A row's bias for every token. Ids outside the vocabulary are left out."""
    vector = np.zeros(vocabulary, np.float32)
    for token, bias in pairs:
        if 0 <= token < vocabulary:
            vector[token] = bias
    return vector


def adjust(
    logits: Float[Array, "batch vocabulary"],
    counts: Int[Array, "batch vocabulary"],
    bias: Float[Array, "batch vocabulary"],
    batch: AdjustmentBatch,
) -> Float[Array, "batch vocabulary"]:
    """Logits with bias, penalties and mask applied; a token that is not allowed gets -inf.

    The penalties are those of the OpenAI API: presence once, frequency for each occurrence.
    """
    occurrences = counts.astype(logits.dtype)
    penalty = batch.presence_penalty[:, None] * (occurrences > 0).astype(logits.dtype)
    penalty = penalty + batch.frequency_penalty[:, None] * occurrences
    bits = (batch.mask[:, :, None] >> jnp.arange(32, dtype=jnp.uint32)) & jnp.uint32(1)
    allowed = bits.reshape(logits.shape[0], -1)[:, : logits.shape[1]] > 0
    return jnp.where(allowed, logits + bias - penalty, -jnp.inf)
