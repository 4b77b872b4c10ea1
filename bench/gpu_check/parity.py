"""Scores of models on the device beside those of the same file in plain XLA on the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from jaxtyping import Float

from bench.gpu_check.check import Check
from bench.gpu_check.models import open_model, scores
from bench.gpu_check.target import Target

_KL: Final = 1e-3
"""Nats, at every position: what rounding products to bfloat16 may cost, with some room."""

_LONGEST: Final = 96


def parity(target: Target, models: Sequence[Path]) -> Iterator[Check]:
    """One check for each model: the largest divergence of a next-token distribution."""
    count = min(_LONGEST, target.sizes.prompt)
    for path in models:
        there = open_model(path, target.device, _LONGEST)
        here = open_model(path, target.host, _LONGEST)
        tokens = np.random.default_rng(0).integers(0, there.config.tokens, count).tolist()
        divergence = divergences(scores(here, tokens), scores(there, tokens))
        yield Check(f"scores of {path.stem}", float(np.max(divergence)), _KL)


def divergences(
    exact: Float[np.ndarray, "tokens vocabulary"], found: Float[np.ndarray, "tokens vocabulary"]
) -> Float[np.ndarray, " tokens"]:
    """The Kullback-Leibler divergence of each position, in nats."""
    known, ours = _log_softmax(exact), _log_softmax(found)
    possible = np.isfinite(known)
    further = np.subtract(known, ours, out=np.zeros_like(known), where=possible)
    terms = np.exp(known) * further
    total: np.ndarray = np.sum(terms, axis=-1)
    return total


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits.astype(np.float64) - np.max(logits, axis=-1, keepdims=True)
    normalised: np.ndarray = shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True))
    return normalised
