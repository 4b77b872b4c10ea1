"""How many drafts a decode step is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Guess(NamedTuple):
    """What one answer may draft.

    Attributes:
        tokens: how many tokens are guessed.
        likelihood: that of each, where those before it are right.
    """

    tokens: int
    likelihood: float

    def expected(self, drafts: int) -> float:
        """How many of so many drafts come out right on average, up to the first wrong one."""
        return sum(self.likelihood**place for place in range(1, min(drafts, self.tokens) + 1))


class DraftBudget:
    """Fills decode steps with drafts as long as that brings more tokens in a second.

    A step is compiled for some batches, and takes as long as the next of them that holds its
    entries. Entries that are there in any case cost nothing; where a larger batch takes longer,
    its drafts must make up for that.
    """

    def __init__(self, batches: Sequence[int], seconds: Mapping[int, float], *, always: bool):
        """For a runner that decodes in these batches, rising.

        Args:
            seconds: how long a step of a batch takes, where it was measured; it is looked at
                whenever drafts are planned.
            always: fill the largest batch whatever it costs.
        """
        self._batches = tuple(batches)
        self._seconds = seconds
        self._always = always

    def drafts(self, rows: int, guesses: Sequence[Guess]) -> int:
        """How many drafts a step of so many rows is given in all.

        Args:
            rows: no more than the largest batch holds.
            guesses: those of its rows that guess.
        """
        if not guesses:
            return 0
        worth = [batch for batch in self._batches if batch >= rows]
        if self._always:
            return worth[-1] - rows
        # Of equal ones the smallest.
        return max(worth, key=lambda batch: self._rate(batch, rows, guesses)) - rows

    def _rate(self, batch: int, rows: int, guesses: Sequence[Guess]) -> float:
        spare, tokens = batch - rows, float(rows)
        for index, guess in enumerate(guesses):
            share = min(-(-spare // (len(guesses) - index)), guess.tokens)
            tokens += guess.expected(share)
            spare -= share
        return tokens / self._time(batch)

    def _time(self, batch: int) -> float:
        """A batch that was never measured is taken to be no slower than smaller ones, once."""
        known = [other for other in self._seconds if other in self._batches]
        if not known:
            return 1.0
        smaller = [other for other in known if other <= batch]
        return self._seconds[max(smaller) if smaller else min(known)]
