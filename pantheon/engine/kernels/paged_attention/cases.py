"""Shapes that every implementation is tested and timed on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np


@dataclass(frozen=True, slots=True)
class Case:
    """One call of `paged_attention`.

    Attributes:
        lengths: tokens held by each row, 0 for padding; the last `time` of them are queried.
        window: how many tokens back a token sees; 0 for all.
    """

    name: str
    time: int
    heads: int
    kv_heads: int
    head_dim: int
    page_size: int
    lengths: tuple[int, ...]
    window: int = 0

    def arguments(self, seed: int = 0) -> tuple[np.ndarray, ...]:
        """Random query, key pages, value pages, block tables, positions and lengths.

        Pages are dealt out in random order; entries of a table past its sequence's end point at
        a page of NaN, which must not be read.
        """
        random = np.random.default_rng(seed)
        needed = [-(-length // self.page_size) for length in self.lengths]
        total = sum(needed) + 1
        poisoned = total - 1
        shape = (total, self.kv_heads, self.page_size, self.head_dim)
        keys = random.standard_normal(shape, np.float32)
        values = random.standard_normal(shape, np.float32)
        keys[poisoned] = values[poisoned] = np.nan
        tables = np.full((len(self.lengths), max(needed) + 2), poisoned, np.int32)
        free = list(random.permutation(total - 1))
        for row, count in enumerate(needed):
            tables[row, :count] = [free.pop() for _ in range(count)]
        query_shape = (len(self.lengths), self.time, self.heads, self.head_dim)
        lengths = np.asarray(self.lengths, np.int32)
        positions = lengths[:, None] - self.time + np.arange(self.time, dtype=np.int32)
        return (
            random.standard_normal(query_shape, np.float32),
            keys,
            values,
            tables,
            np.maximum(positions, 0).astype(np.int32),
            lengths,
        )


CASES: Final = (
    Case("decode of one short row", 1, 4, 2, 16, 8, (3,)),
    Case("decode of uneven rows with padding", 1, 9, 3, 64, 64, (1, 130, 0, 64)),
    Case("decode without grouping", 1, 4, 4, 32, 16, (40, 17)),
    Case("prefill from the start", 33, 6, 2, 32, 16, (33,)),
    Case("prefill of a later chunk", 20, 8, 1, 16, 8, (75,)),
    Case("decode in a sliding window", 1, 4, 2, 16, 8, (3, 100, 0), window=21),
    Case("prefill in a sliding window", 20, 4, 2, 16, 8, (75,), window=30),
)
