"""Shapes that every implementation is tested and timed on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np


@dataclass(frozen=True, slots=True)
class Case:
    """One call of `gated_delta_rule`.

    Attributes:
        spans: for each row the first valid place and the one after the last.
        same_key: whether every token has the same key and hardly any decay, which makes the
            tokens depend on each other as strongly as they can.
    """

    name: str
    time: int
    heads: int
    key_dim: int
    value_dim: int
    spans: tuple[tuple[int, int], ...]
    same_key: bool = False

    def arguments(self, seed: int = 0) -> tuple[np.ndarray, ...]:
        """Random query, key, value, log decay, strength; which tokens are valid; a state."""
        random = np.random.default_rng(seed)
        batch = len(self.spans)
        shape = (batch, self.time, self.heads)

        def normal(*sizes: int) -> np.ndarray:
            return random.standard_normal(sizes, np.float32)

        key = normal(*shape, self.key_dim)
        if self.same_key:
            key[:] = key[:, :1]
        key /= np.linalg.norm(key, axis=-1, keepdims=True)
        log_decay = -np.exp(normal(*shape) - (8 if self.same_key else 1))
        place = np.arange(self.time)
        valid = np.array([(first <= place) & (place < end) for first, end in self.spans])
        return (
            normal(*shape, self.key_dim) / self.key_dim,
            key,
            normal(*shape, self.value_dim),
            log_decay,
            (1 / (1 + np.exp(-normal(*shape)))).astype(np.float32),
            valid,
            normal(batch, self.heads, self.key_dim, self.value_dim) * 0.1,
        )


CASES: Final = (
    Case("decode with padding", 1, 4, 32, 32, ((0, 1), (0, 0), (0, 1))),
    Case("prefill of a whole cell", 128, 4, 32, 32, ((0, 128),)),
    Case("prefill with padding on both sides", 128, 2, 32, 64, ((70, 101),)),
    Case("prefill of uneven rows", 48, 3, 16, 16, ((0, 48), (5, 17), (0, 0))),
    Case("decode of odd sizes", 1, 3, 40, 24, ((0, 1), (0, 1))),
    Case("prefill of one key", 128, 2, 32, 32, ((0, 128),), same_key=True),
)

COMPILED: Final = (
    Case("decode of eight rows", 1, 32, 128, 128, ((0, 1),) * 8),
    Case("prefill of 128 tokens", 128, 32, 128, 128, ((0, 128),)),
    Case("prefill of 512 tokens", 512, 32, 128, 128, ((0, 512),)),
)
"""Of the size of Qwen3-Next's, for kernels that are compiled and not run."""
