"""Drafts of what one answer goes on with, and whether they were right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from pantheon.engine.constraint import Constraint
from pantheon.engine.draft_budget import Guess
from pantheon.engine.token_mask import TokenMask

_LEAST_MATCH: Final = 3
_MOST_MATCH: Final = 8
_FIRST_WIDTH: Final = 2
_MOST_WIDTH: Final = 16

_HOPED_RIGHT: Final = 4.0
_HOPED_TRIED: Final = 5.0
"""An answer begins as if so many drafts of so many had been right."""

_MEMORY: Final = 0.98
"""What was right or wrong counts so much less with each step since."""


class Guesser(Protocol):
    """Follows one conversation and guesses how it goes on."""

    def push(self, token: int) -> None:
        """Take the next token of the conversation."""
        ...

    def guess(self, most: int, *, least_match: int) -> tuple[int, ...]:
        """Up to `most` tokens that may follow, more certain the longer the match asked for."""
        ...


@dataclass(frozen=True, slots=True)
class DraftCount:
    """Tokens that were drafted, and how many of them were right."""

    right: int = 0
    drafted: int = 0

    def __add__(self, other: DraftCount) -> DraftCount:
        return DraftCount(self.right + other.right, self.drafted + other.drafted)

    def __sub__(self, other: DraftCount) -> DraftCount:
        return DraftCount(self.right - other.right, self.drafted - other.drafted)

    def __str__(self) -> str:
        share = self.right / self.drafted if self.drafted else 0.0
        return f"{self.right} of {self.drafted} drafted tokens were right ({share:.0%})"


class Drafting:
    """Speculative decoding of one answer from guesses (Leviathan et al., 2023).

    Drafts stand in entries of a decode step that no other row uses. Each entry samples what a
    step of its own would, if all drafts before it are what was sampled there and the mask that
    was foreseen for it is the one that holds: then its token is taken, else it is thrown away. So
    the answer is that of plain decoding, whatever is guessed and however it is sampled.

    After a wrong draft a longer match is asked for and fewer tokens are drafted, after a right
    one more.

    Attributes:
        count: how many drafts were right so far.
        untold: tokens taken of the latest step if it had drafts: the device does not know them.
    """

    def __init__(self, guesser: Guesser, constraint: Constraint | None) -> None:
        """Begin before the first token of an answer.

        Args:
            guesser: has taken the prompt.
        """
        self._guesser = guesser
        self._constraint = constraint
        self._guess: tuple[int, ...] = ()
        self._drafts: tuple[int, ...] = ()
        self._masks: tuple[TokenMask | None, ...] = ()
        self._least_match = _LEAST_MATCH
        self._width = _FIRST_WIDTH
        self._right = self._tried = 0.0
        self.count = DraftCount()
        self.untold: list[int] = []

    @property
    def guess(self) -> Guess | None:
        """What is guessed to follow the latest token; None where nothing is."""
        if not self._guess:
            return None
        likelihood = (self._right + _HOPED_RIGHT) / (self._tried + _HOPED_TRIED)
        return Guess(len(self._guess), likelihood)

    @property
    def verifies(self) -> bool:
        """Whether drafts are on their way, which must be read before the next step."""
        return bool(self._drafts)

    def draft(self, most: int) -> tuple[int, ...]:
        """Draft at most so many tokens that follow the latest one, for the step to come.

        They end where the constraint refuses the next.
        """
        drafts = self._guess[:most]
        foreseen: tuple[TokenMask | None, ...] = (None,) * len(drafts)
        if drafts and self._constraint is not None:
            foreseen = self._constraint.foresee(drafts)
            drafts = drafts[: len(foreseen)]
        self._drafts, self._masks = drafts, foreseen
        self._guess = ()
        return drafts

    def masks(self, first: TokenMask | None) -> tuple[TokenMask | None, ...]:
        """Masks of the step's entries: `first` for the newest token, then those of the drafts."""
        return (first, *self._masks)

    def confirms(self, index: int, sampled: Sequence[int], mask: TokenMask | None) -> bool:
        """Whether the entry of a draft sampled what plain decoding would.

        Args:
            index: which draft.
            sampled: the answer so far, what was taken of the entries before included.
            mask: of what may come next, as it is.
        """
        return self._drafts[index] == sampled[-1] and _same(self._masks[index], mask)

    def take(self, token: int) -> None:
        """Take a sampled token."""
        if self._drafts:
            self.untold.append(token)
        self._guesser.push(token)

    def end_step(self) -> None:
        """Everything that is taken of a step was taken: learn, and guess what follows."""
        self._right *= _MEMORY
        self._tried *= _MEMORY
        if self._drafts:
            self._learn()
        self._guess = self._guesser.guess(self._width, least_match=self._least_match)

    def tell(self) -> tuple[int, ...]:
        """What the device is told with the next step: the tokens in `untold`, once."""
        told = tuple(self.untold)
        self.untold.clear()
        return told

    def _learn(self) -> None:
        right = len(self.untold) - 1
        self.count += DraftCount(right, len(self._drafts))
        self._right += right
        # What stands behind the first wrong one says nothing.
        self._tried += min(right + 1, len(self._drafts))
        if right == len(self._drafts):
            self._width = min(2 * self._width, _MOST_WIDTH)
            self._least_match = _LEAST_MATCH
        elif right:
            self._width = right + 1
        else:
            self._width = _FIRST_WIDTH
            self._least_match = min(self._least_match + 1, _MOST_MATCH)
        self._drafts, self._masks = (), ()


def _same(foreseen: TokenMask | None, holding: TokenMask | None) -> bool:
    if foreseen is None or holding is None:
        return foreseen is holding
    return np.array_equal(foreseen, holding)
