"""Shapes that the Pallas kernels are tested and compiled on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np


@dataclass(frozen=True, slots=True)
class Case:
    """One layer's worth of rows.

    Attributes:
        hidden, inner: columns of the norm, and of gate and up.
        turned: leading dimensions of a head that are rotated.
        neighbours: whether neighbours are pairs, or halves.
    """

    name: str
    tokens: int
    hidden: int
    inner: int
    heads: int
    head_dim: int
    turned: int
    neighbours: bool = False

    def normal(self, seed: int, *shape: int) -> np.ndarray:
        """Random numbers for each token."""
        random = np.random.default_rng(seed)
        return random.standard_normal((1, self.tokens, *shape), np.float32)


CASES: Final = (
    Case("one token", 1, 576, 1536, 9, 64, 64, neighbours=True),
    Case("odd sizes", 3, 7, 5, 3, 12, 6),
    Case("a part of a head", 5, 130, 130, 5, 80, 20),
    Case("neighbours in a part of a head", 4, 33, 1025, 8, 32, 8, neighbours=True),
    Case("whole heads of halves", 6, 64, 2048, 2, 96, 96),
)

COMPILED: Final = (
    Case("decode of eight rows", 8, 4096, 14336, 32, 128, 128, neighbours=True),
    Case("prefill of 128 tokens", 128, 5120, 17408, 40, 128, 128),
    Case("prefill, a part of a head", 128, 2048, 5120, 16, 256, 64),
)
"""Of the sizes of Llama 3 8B, Qwen3 14B and Qwen3-Next."""
