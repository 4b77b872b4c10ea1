"""Formats of the interleaved layout, which the native kernels read; see `native/layout.h`."""

from __future__ import annotations

from enum import Enum
from typing import Final

BLOCK_ROWS: Final = 32
"""Rows of a matrix that lie interleaved."""

STEP_COLUMNS: Final = 32
"""Columns of a step."""


class Format(Enum):
    """How values are packed: (number, steps that share a head, bytes of the head, of a step).

    The bytes are those of all 32 rows together.
    """

    F32 = (0, 1, 0, 4096)
    F16 = (1, 1, 0, 2048)
    BF16 = (2, 1, 0, 2048)
    Q4_0 = (3, 1, 0, 576)
    Q4_1 = (4, 1, 0, 640)
    Q5_0 = (5, 1, 0, 704)
    Q5_1 = (6, 1, 0, 768)
    Q8_0 = (7, 1, 0, 1088)
    Q2_K = (8, 8, 128, 320)
    Q3_K = (9, 8, 64, 448)
    Q4_K = (10, 8, 128, 576)
    Q5_K = (11, 8, 128, 704)
    Q6_K = (12, 8, 64, 832)
    IQ4_NL = (13, 1, 0, 576)
    IQ4_XS = (14, 8, 64, 544)
    TERNARY = (15, 8, 64, 256)
    MXFP4 = (16, 1, 0, 544)
    NVFP4 = (17, 2, 0, 640)
    INT8 = (18, 2, 128, 1024)
    CODES8 = (19, 8, 64, 1088)

    @property
    def number(self) -> int:
        """The number by which the kernels know it."""
        return self.value[0]

    @property
    def span_steps(self) -> int:
        """Steps that share a head."""
        return self.value[1]

    @property
    def head_bytes(self) -> int:
        """Bytes of the head of a span, all rows of a block together."""
        return self.value[2]

    @property
    def step_bytes(self) -> int:
        """Bytes of a step, all rows of a block together."""
        return self.value[3]

    @property
    def span_columns(self) -> int:
        """Columns of a span; a matrix has a whole number of them."""
        return self.span_steps * STEP_COLUMNS

    @property
    def span_bytes(self) -> int:
        """Bytes of a span, all rows of a block together."""
        return self.head_bytes + self.span_steps * self.step_bytes

    def holds(self, columns: int) -> bool:
        """Whether a row of so many columns can be packed."""
        return columns > 0 and columns % self.span_columns == 0

    def block_bytes(self, columns: int) -> int:
        """Bytes of a block of rows; `columns` is one that it holds."""
        return columns // self.span_columns * self.span_bytes

    def held_bytes(self, rows: int, columns: int) -> int:
        """Bytes of a matrix; its last block is a whole one."""
        return -(-rows // BLOCK_ROWS) * self.block_bytes(columns)
