"""A guesser that knows the answer, and is wrong where it is told to be."""

from __future__ import annotations

from collections.abc import Callable, Sequence


class Oracle:
    """Implements `pantheon.engine.drafting.Guesser`."""

    def __init__(
        self, answer: Sequence[int], right: Callable[[int], bool], wrong: int, width: int = 7
    ) -> None:
        """Guess an answer's tokens.

        Args:
            right: whether the token at a place of the answer is guessed as it is.
            wrong: bits that are turned in one that is not; what they make stands in a vocabulary
                of an even size as well.
            width: tokens guessed at once, whatever is asked for.
        """
        self._answer = answer
        self._right = right
        self._wrong = wrong
        self._width = width
        self._taken = 0

    def push(self, token: int) -> None:
        self._taken += 1

    def guess(self, most: int, *, least_match: int) -> tuple[int, ...]:
        places = range(self._taken, min(self._taken + self._width, len(self._answer)))
        return tuple(
            self._answer[place] if self._right(place) else self._answer[place] ^ self._wrong
            for place in places
        )
