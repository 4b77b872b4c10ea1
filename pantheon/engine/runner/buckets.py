"""The shapes for which steps are compiled. Plain numbers."""

from __future__ import annotations

from typing import Final

DECODE_BATCHES: Final = (1, 8)
"""Rows of a decode step. Measured on CPU, XLA multiplies 2 or 4 rows no faster than 8."""

PREFILL_CHUNKS: Final = (32, 128, 512)
"""Tokens of a prefill step."""


def smallest_bucket(buckets: tuple[int, ...], size: int) -> int:
    """The smallest bucket that holds `size`.

    Raises:
        ValueError: none does.
    """
    for bucket in buckets:
        if size <= bucket:
            return bucket
    raise ValueError(f"size must be at most {buckets[-1]}, got {size}")


def decode_batches(rows: int) -> tuple[int, ...]:
    """The buckets that a runner of `rows` rows needs."""
    largest = smallest_bucket(DECODE_BATCHES, rows)
    return tuple(batch for batch in DECODE_BATCHES if batch <= largest)
