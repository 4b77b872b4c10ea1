"""The pool of KV pages of one model."""

from __future__ import annotations


class PagePool:
    """Hands out page numbers. The pool owns every page that no sequence holds.

    A page holds the keys and values of `page_size` consecutive tokens of one sequence in every
    layer. The pool deals in numbers only; the arrays behind them belong to the runner.
    """

    def __init__(self, total: int, page_size: int) -> None:
        """Make a pool of `total` free pages of `page_size` tokens."""
        if total < 1 or page_size < 1:
            raise ValueError(
                f"a page pool needs at least one page of one token, got {total} of {page_size}"
            )
        self.total = total
        self.page_size = page_size
        # Taken from the end: the lowest numbers first, so that a quiet server touches few pages.
        self._free = list(range(total - 1, -1, -1))
        self._held = [False] * total

    @property
    def free(self) -> int:
        """Pages that no sequence holds."""
        return len(self._free)

    def pages_for(self, tokens: int) -> int:
        """Pages needed to hold `tokens` tokens."""
        return -(-tokens // self.page_size)

    def allocate(self, count: int) -> tuple[int, ...] | None:
        """Take `count` pages, or none at all: None when fewer are free."""
        if count > len(self._free):
            return None
        taken = tuple(self._free.pop() for _ in range(count))
        for page in taken:
            self._held[page] = True
        return taken

    def release(self, pages: tuple[int, ...]) -> None:
        """Give pages back.

        Raises:
            ValueError: a page is not held, so two owners believed they had it.
        """
        for page in pages:
            if not self._held[page]:
                raise ValueError(f"page {page} is released but nobody holds it")
            self._held[page] = False
            self._free.append(page)

    def check(self) -> None:
        """Raise AssertionError unless every page is either free or held, and only once."""
        assert len(set(self._free)) == len(self._free), "a page is free twice"
        assert all(not self._held[page] for page in self._free), "a page is both free and held"
        assert len(self._free) + sum(self._held) == self.total, "a page is lost"
