"""Shapes that every implementation is tested and timed on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Case:
    """One product.

    Attributes:
        rows: of activations.
        outputs, inputs: of the matrix.
    """

    name: str
    rows: int
    outputs: int
    inputs: int


CASES: Final = (
    Case("one row", 1, 1536, 576),
    Case("two rows", 2, 1536, 576),
    Case("four rows", 4, 1536, 576),
    Case("eight rows", 8, 1536, 576),
    Case("a chunk of a prompt", 128, 1536, 576),
    Case("one row, a wide matrix", 1, 1024, 3072),
    Case("a chunk, a wide matrix", 128, 1024, 3072),
)
"""Matrices of SmolLM2-135M and of Qwen3-0.6B."""

RAW_CASES: Final = (
    Case("one row", 1, 20, 768),
    Case("eight rows", 8, 20, 768),
    Case("nine rows", 9, 70, 768),
    Case("more rows than a tile has", 70, 20, 256),
)
"""Products with raw blocks that an interpreter computes in a second: outputs, rows and blocks that
fill no tile."""

RAW_MODEL_CASES: Final = (
    Case("one row", 1, 4096, 4096),
    Case("eight rows", 8, 4096, 4096),
    Case("a chunk of a prompt", 128, 4096, 4096),
)
"""Of Qwen3-8B, for the table of compiled kernels."""
