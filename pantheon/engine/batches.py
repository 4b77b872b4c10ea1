"""Entries of decode steps, and the batches that they are padded to."""

from __future__ import annotations

from collections.abc import Sequence


def holding(entries: int, batches: Sequence[int]) -> int:
    """The smallest of rising batches that holds so many entries; the last must."""
    return next(batch for batch in batches if entries <= batch)
