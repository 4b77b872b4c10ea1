"""Sampling parameters of one row, in the terms of the compiled step."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RowSampling:
    """How the next token of one sequence is chosen. All numbers are finite.

    Attributes:
        temperature: <= 0 chooses the argmax.
        top_p: >= 1 is off, <= 0 keeps the best token.
        top_k: <= 0 is off.
        seed: 64 bits; only its value modulo 2 ** 64 counts.
    """

    temperature: float
    top_p: float
    top_k: int
    seed: int
