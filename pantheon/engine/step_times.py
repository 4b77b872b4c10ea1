"""How long steps take, as measured while they run."""

from __future__ import annotations

import math
from typing import Final

_MEMORY: Final = 0.9
"""Weight of what was measured before, when a new measurement comes."""

_MOST_STEPS: Final = 64


class StepTimes:
    """Running averages of one model's steps. Seconds."""

    def __init__(self) -> None:
        self._decode: float | None = None
        self._prefill: float | None = None
        self._prefill_tokens = 0.0
        self._prefill_seconds = 0.0

    def add(self, seconds: float, *, decode_rows: int, prefill_tokens: int) -> None:
        """Take the duration of one step.

        The part of a step that both decodes and prefills is its duration without that of a
        decode step alone.
        """
        if not prefill_tokens:
            self._decode = _average(self._decode, seconds)
            return
        if decode_rows:
            seconds -= self._decode or 0.0
        if seconds > 0:
            self._prefill = _average(self._prefill, seconds)
            self._prefill_tokens = _MEMORY * self._prefill_tokens + prefill_tokens
            self._prefill_seconds = _MEMORY * self._prefill_seconds + seconds

    @property
    def prefill_tokens_per_s(self) -> float | None:
        """The rate of prefill; None before one was measured."""
        if not self._prefill_seconds:
            return None
        return self._prefill_tokens / self._prefill_seconds

    @property
    def pace(self) -> int | None:
        """Decode steps to put after each that carries a chunk of prefill; None if not known yet.

        With them, decode steps take at least as long together as the chunk, so that running
        streams keep half of their rate while a prompt is prefilled.
        """
        if self._decode is None or self._prefill is None:
            return None
        return min(max(math.ceil(self._prefill / self._decode) - 1, 0), _MOST_STEPS)


def _average(before: float | None, seconds: float) -> float:
    return seconds if before is None else _MEMORY * before + (1 - _MEMORY) * seconds
