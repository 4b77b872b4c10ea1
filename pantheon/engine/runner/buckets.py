"""The shapes for which steps are compiled. Plain numbers."""

from __future__ import annotations

from typing import Final

DECODE_BATCHES: Final = (1, 8)
"""Rows of a decode step. Measured on CPU, XLA multiplies 2 or 4 rows no faster than 8."""

PREFILL_CHUNK: Final = 128
"""Tokens of a prefill step, and the grid on which they stand.

There is one size, so that a position is computed by one program wherever a prompt is cut: XLA's
products and fusions round differently in programs of different sizes. Measured on CPU with
SmolLM2, 512 tokens at once take a fifth less time a token, 32 nearly twice as much.
"""


def decode_batch(rows: int) -> int:
    """The batch that a runner of `rows` rows decodes in, always: see `PREFILL_CHUNK`.

    Raises:
        ValueError: no batch holds so many.
    """
    for batch in DECODE_BATCHES:
        if rows <= batch:
            return batch
    raise ValueError(f"rows must be at most {DECODE_BATCHES[-1]}, got {rows}")
