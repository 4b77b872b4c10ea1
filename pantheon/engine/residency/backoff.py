"""When something that failed is tried again: later each time, and not for ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

ATTEMPTS: Final = 5
"""After so many failures in a row nothing is tried again."""

_FIRST_DELAY_S: Final = 1.0
_GROWTH: Final = 4.0


class Backoff:
    """Counts failures and says when the next attempt is due. Used by one thread."""

    def __init__(self, clock: Callable[[], float], attempts: int = ATTEMPTS) -> None:
        """Nothing has failed: an attempt is due.

        Args:
            clock: seconds that never go back.
            attempts: failures in a row after which it gives up; at least 1.
        """
        if attempts < 1:
            raise ValueError(f"expected at least one attempt, got {attempts}")
        self._clock = clock
        self._attempts = attempts
        self._failures = 0
        self._due_at = float("-inf")

    @property
    def gave_up(self) -> bool:
        """Whether the last attempt was made."""
        return self._failures >= self._attempts

    @property
    def due(self) -> bool:
        """Whether an attempt may be made now."""
        return not self.gave_up and self._clock() >= self._due_at

    @property
    def due_in_s(self) -> float | None:
        """Seconds until an attempt is due, 0 when it is; None when none will be."""
        return None if self.gave_up else max(self._due_at - self._clock(), 0.0)

    def failed(self, *, for_good: bool = False) -> None:
        """Note a failure; the next attempt is due four times as long after it as the one before.

        Args:
            for_good: whether it would fail again whatever changed.
        """
        self._failures = self._attempts if for_good else self._failures + 1
        self._due_at = self._clock() + _FIRST_DELAY_S * _GROWTH ** (self._failures - 1)

    def succeeded(self) -> None:
        """Note a success: the count of failures in a row begins anew."""
        self._failures = 0
        self._due_at = float("-inf")
