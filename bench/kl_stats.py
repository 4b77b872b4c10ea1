"""How far distributions of the next token are from those of a reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True, slots=True)
class Divergence:
    """Of all positions of a text.

    Attributes:
        mean: KL divergence from the reference, in nats.
        largest: that of the worst position.
        same_top: share of positions at which the likeliest token is the reference's.
    """

    mean: float
    largest: float
    same_top: float

    @staticmethod
    def of(pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> Divergence:
        """The divergence of logits, each chunk with the reference's: (positions, vocabulary)."""
        values = np.concatenate([kl_divergence(*pair) for pair in pairs])
        same = np.concatenate([a.argmax(axis=1) == b.argmax(axis=1) for a, b in pairs])
        return Divergence(float(values.mean()), float(values.max()), float(same.mean()))

    def record(self) -> dict[str, Any]:
        """The numbers as JSON."""
        return {"mean": self.mean, "largest": self.largest, "same_top": self.same_top}


def kl_divergence(
    logits: Float[np.ndarray, "positions vocabulary"],
    reference: Float[np.ndarray, "positions vocabulary"],
) -> Float[np.ndarray, " positions"]:
    """KL(reference || logits) of each position in nats, computed in float64.

    A token that the reference excludes (-inf) adds nothing.
    """
    p, q = _log_softmax(reference), _log_softmax(logits)
    excluded = np.isneginf(p)
    difference = np.where(excluded, 0.0, p - np.where(excluded, 0.0, q))
    result: np.ndarray = (np.exp(p) * difference).sum(axis=1)
    return result


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    result: np.ndarray = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return result
