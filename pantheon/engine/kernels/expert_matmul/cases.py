"""Shapes that the kernel is tested and compiled on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np


@dataclass(frozen=True, slots=True)
class Case:
    """One product.

    Attributes:
        tokens: that choose, those of padding among them.
        padding: tokens at the end that choose nothing.
        used: experts that a token chooses.
        outputs, inputs: of each expert's matrix.
        one: whether all tokens choose the same.
    """

    name: str
    tokens: int
    padding: int
    used: int
    experts: int
    outputs: int
    inputs: int
    one: bool = False

    def chosen(self, seed: int = 0) -> np.ndarray:
        """int32 [tokens, used]: random choices, which differ within a token."""
        random = np.random.default_rng(seed)
        scores = random.random((1 if self.one else self.tokens, self.experts))
        chosen = np.argsort(scores, axis=1)[:, : self.used].astype(np.int32)
        chosen = np.broadcast_to(chosen, (self.tokens, self.used)).copy()
        chosen[self.tokens - self.padding :] = self.experts
        return chosen


CASES: Final = (
    Case("a token", 1, 0, 2, 8, 70, 256),
    Case("tokens and padding", 5, 2, 2, 4, 20, 512),
    Case("more tokens of an expert than a tile has", 37, 1, 2, 4, 20, 256, one=True),
    Case("nothing but padding", 2, 2, 2, 4, 20, 256),
)

MODEL_CASES: Final = (
    Case("gate, eight tokens", 8, 0, 8, 128, 768, 2048),
    Case("gate, a chunk of a prompt", 128, 0, 8, 128, 768, 2048),
    Case("down, eight tokens", 8, 0, 8, 128, 2048, 768),
)
"""Of Qwen3-30B-A3B, for the table of compiled kernels."""
