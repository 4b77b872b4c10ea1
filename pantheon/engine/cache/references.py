"""Numbers that are lent out and may have several holders."""

from __future__ import annotations

from collections.abc import Iterable


class ReferencePool:
    """Lends out the numbers 0 to `total - 1`; a number is free again when its last holder lets go.

    The pool deals in numbers only; what they stand for on a device belongs to the runner.
    """

    def __init__(self, total: int) -> None:
        """Make a pool with every number free."""
        self.total = total
        # Taken from the end: the lowest numbers first, so that a quiet server touches little.
        self._free = list(range(total - 1, -1, -1))
        self._holders = [0] * total

    @property
    def free(self) -> int:
        """Numbers that nobody holds."""
        return len(self._free)

    def allocate(self, count: int) -> tuple[int, ...] | None:
        """Take `count` numbers with one holder each, or none at all: None when fewer are free."""
        if count > len(self._free):
            return None
        taken = tuple(self._free.pop() for _ in range(count))
        for number in taken:
            self._holders[number] = 1
        return taken

    def share(self, numbers: Iterable[int]) -> None:
        """Add a holder to each number.

        Raises:
            ValueError: nobody holds one of them, so there is nothing to share.
        """
        for number in numbers:
            if not self._holders[number]:
                raise ValueError(f"{number} is shared but nobody holds it")
            self._holders[number] += 1

    def release(self, numbers: Iterable[int]) -> None:
        """Take a holder off each number.

        Raises:
            ValueError: nobody holds one of them: somebody let go twice.
        """
        for number in numbers:
            if not self._holders[number]:
                raise ValueError(f"{number} is released but nobody holds it")
            self._holders[number] -= 1
            if not self._holders[number]:
                self._free.append(number)

    def check(self, held: Iterable[int]) -> None:
        """Raise AssertionError unless `held`, a number once for each holder, is what is held."""
        counts = [0] * self.total
        for number in held:
            counts[number] += 1
        assert counts == self._holders, "holders and references disagree"
        assert sorted(self._free) == [n for n, count in enumerate(counts) if not count], (
            "a number is lost or both free and held"
        )
