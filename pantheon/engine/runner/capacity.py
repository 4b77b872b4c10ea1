"""How much a runner holds. Plain numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Capacity:
    """How much a runner holds.

    Attributes:
        rows: sequences decoded at once.
        pages: pages of the KV pool.
        page_size: tokens of a page.
        window: most tokens of one sequence.
        checkpoints: recurrent states kept beside those of the rows.
    """

    rows: int
    pages: int
    page_size: int
    window: int
    checkpoints: int = 0

    @property
    def table_width(self) -> int:
        """Entries of a block table: the pages of a whole window."""
        return -(-self.window // self.page_size)
