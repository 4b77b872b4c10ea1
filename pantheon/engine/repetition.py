"""Noticing that a model loops (reference, `finish_reason`: `repetition_loop`)."""

from __future__ import annotations

from typing import Final

import numpy as np

MAX_PERIOD: Final = 64
"""Longest loop that is looked for, in tokens."""
MIN_REPEATS: Final = 8
"""Times that a loop must have been gone through."""
MIN_TOKENS: Final = 256
"""Tokens that these repeats must make in all."""

_NO_TOKEN: Final = -1


class RepetitionDetector:
    """Counts, for each period, for how many tokens the sequence has repeated itself.

    A token costs one comparison with each of the last `MAX_PERIOD` tokens.
    """

    __slots__ = ("_last", "_run", "_wanted")

    def __init__(self) -> None:
        """Start at the beginning of a sequence."""
        periods = np.arange(1, MAX_PERIOD + 1)
        self._last = np.full(MAX_PERIOD, _NO_TOKEN, np.int64)
        self._run = np.zeros(MAX_PERIOD, np.int64)
        # The first time through a loop repeats nothing.
        self._wanted = np.maximum(MIN_REPEATS * periods, MIN_TOKENS) - periods

    def push(self, token_id: int) -> bool:
        """Take the next token; True when the sequence now ends in a loop."""
        self._run += 1
        self._run *= self._last == token_id
        self._last[1:] = self._last[:-1]
        self._last[0] = token_id
        return bool((self._run >= self._wanted).any())
