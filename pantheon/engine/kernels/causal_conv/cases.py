"""Shapes that every implementation is tested and compiled on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np


@dataclass(frozen=True, slots=True)
class Case:
    """One call of `causal_conv`.

    Attributes:
        spans: for each row the first valid place and the one after the last.
    """

    name: str
    time: int
    channels: int
    taps: int
    spans: tuple[tuple[int, int], ...]

    def arguments(self, seed: int = 0) -> tuple[np.ndarray, ...]:
        """Random inputs, taps, inputs before; which tokens are valid. Padding is NaN."""
        random = np.random.default_rng(seed)
        batch = len(self.spans)
        place = np.arange(self.time)
        valid = np.array([(first <= place) & (place < end) for first, end in self.spans])
        x = random.standard_normal((batch, self.time, self.channels), np.float32)
        return (
            np.where(valid[..., None], x, np.float32(np.nan)),
            random.standard_normal((self.channels, self.taps), np.float32),
            random.standard_normal((batch, self.taps - 1, self.channels), np.float32),
            valid,
        )


CASES: Final = (
    Case("decode with padding", 1, 40, 4, ((0, 1), (0, 0), (0, 1))),
    Case("prefill of a whole cell", 32, 40, 4, ((0, 32),)),
    Case("prefill of uneven rows", 21, 17, 4, ((0, 21), (5, 17), (0, 0), (19, 20), (20, 21))),
    Case("prefill across tiles", 37, 8, 4, ((15, 18), (14, 37), (17, 33))),
    Case("two taps", 20, 8, 2, ((1, 19),)),
)

COMPILED: Final = (
    Case("decode of eight rows", 1, 8192, 4, ((0, 1),) * 8),
    Case("prefill of 128 tokens", 128, 8192, 4, ((0, 128),)),
)
"""Of the size of Qwen3-Next's."""
