"""The pool of KV pages of one model."""

from __future__ import annotations

from pantheon.engine.cache.references import ReferencePool


class PagePool(ReferencePool):
    """A page holds the keys and values of `page_size` consecutive tokens in every layer.

    Sequences and cached conversations share the pages of a common prefix. Only a sequence that
    holds a page alone writes to it.
    """

    def __init__(self, total: int, page_size: int) -> None:
        """Make a pool of `total` free pages of `page_size` tokens."""
        if total < 1 or page_size < 1:
            raise ValueError(
                f"a page pool needs at least one page of one token, got {total} of {page_size}"
            )
        super().__init__(total)
        self.page_size = page_size

    def pages_for(self, tokens: int) -> int:
        """Pages needed to hold `tokens` tokens."""
        return -(-tokens // self.page_size)
