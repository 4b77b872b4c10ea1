"""The shapes for which steps are compiled. Plain numbers."""

from __future__ import annotations

from typing import Final

from pantheon.engine.batches import holding

DECODE_BATCHES: Final = (1, 2, 4, 8)
"""Entries of a decode step."""

PREFILL_CHUNK: Final = 128
"""Tokens of a prefill step, and the grid on which they stand.

There is one size, so that a position is computed by one program wherever a prompt is cut: XLA's
products and fusions round differently in programs of different sizes. Measured on CPU with
SmolLM2, 512 tokens at once take a fifth less time a token, 32 nearly twice as much.
"""


def decode_batches(rows: int, *, alike: bool) -> tuple[int, ...]:
    """The batches that a runner of `rows` rows decodes in, rising; the last holds all of them.

    Args:
        alike: whether a row comes out the same in a batch of any size. If not there is one batch:
            an answer must be the same alone and in company.

    Raises:
        ValueError: no batch holds so many.
    """
    if rows > DECODE_BATCHES[-1]:
        raise ValueError(f"rows must be at most {DECODE_BATCHES[-1]}, got {rows}")
    largest = holding(rows, DECODE_BATCHES)
    if not alike:
        return (largest if largest == 1 else DECODE_BATCHES[-1],)
    return tuple(batch for batch in DECODE_BATCHES if batch <= largest)
