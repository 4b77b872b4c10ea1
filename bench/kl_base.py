"""Log-probabilities in the file that llama-perplexity compares with (`--kl-divergence-base`).

The format is that of `tools/perplexity/perplexity.cpp`: the mark, the context, the vocabulary and
the number of chunks; all tokens; then of each chunk a row for every position of its second half but
the last: scale and lowest log-probability as float32, and 16-bit steps of the scale above it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import numpy as np
from jaxtyping import Float, Int, UInt16

_MARK: Final = b"_logits_"
_DEPTH: Final = 16.0
"""Scores so far below the largest are all written as that."""

_STEPS: Final = 65535


def write_base(
    file: Path,
    tokens: Int[np.ndarray, "chunks context"],
    vocabulary: int,
    logits: Iterable[Float[np.ndarray, "positions vocabulary"]],
) -> None:
    """Write the file of a text.

    Args:
        logits: of each chunk, in order, of its positions `evaluated(context)`.
    """
    chunks, context = tokens.shape
    with file.open("wb") as output:
        output.write(_MARK + struct.pack("<Iii", context, vocabulary, chunks))
        output.write(tokens.astype("<i4").tobytes())
        for rows in logits:
            output.write(packed_rows(rows).tobytes())


def evaluated(context: int) -> range:
    """The positions of a chunk that are compared: enough stands before them, and one follows."""
    return range(context // 2, context - 1)


def packed_rows(
    logits: Float[np.ndarray, "positions vocabulary"],
) -> UInt16[np.ndarray, "positions width"]:
    """Rows of a chunk: four numbers of scale and bottom, then a number for each token."""
    positions, vocabulary = logits.shape
    top = logits.max(axis=1, keepdims=True)
    bottom = np.maximum(logits.min(axis=1, keepdims=True), top - _DEPTH)
    total = np.log(np.exp((logits - top).astype(np.float64)).sum(axis=1, keepdims=True))
    scale = ((top - bottom) / _STEPS).astype(np.float32)
    rows = np.zeros((positions, 4 + vocabulary + vocabulary % 2), np.uint16)
    rows[:, :2] = scale.view(np.uint16)
    rows[:, 2:4] = (bottom - top - total).astype(np.float32).view(np.uint16)
    steps = np.divide(logits - bottom, scale, out=np.zeros_like(logits), where=scale > 0)
    rows[:, 4 : 4 + vocabulary] = np.clip(np.rint(steps), 0, _STEPS)
    return rows
