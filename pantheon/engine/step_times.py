"""How long steps take, as measured while they run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_MEMORY: Final = 0.9
"""Weight of what was measured before, when a new measurement comes."""

_MOST_STEPS: Final = 64


class StepTimes:
    """Running averages of one model's steps. Seconds."""

    def __init__(self, chunk: int) -> None:
        """Start with nothing measured.

        Args:
            chunk: tokens of a whole prefill step.
        """
        self._chunk = chunk
        self._measured_whole = False
        self._decode: float | None = None
        self._prefill: float | None = None
        self._batches: dict[int, float] = {}

    def add(self, seconds: float, *, batch: int, prefilled: int) -> None:
        """Take the duration of one step.

        The part of a step that both decodes and prefills is its duration without that of a
        decode step alone. Whole chunks of prefill count; until there was one, what is at least half
        of one, as if padding took no time.

        Args:
            batch: entries of the compiled decode step, 0 where none ran.
            prefilled: tokens of a prompt that were computed.
        """
        if not prefilled:
            self._decode = _average(self._decode, seconds)
            self._batches[batch] = _average(self._batches.get(batch), seconds)
            return
        if batch:
            seconds -= self._batches.get(batch, self._decode or 0.0)
        if seconds <= 0:
            return
        if prefilled >= self._chunk:
            self._prefill = _average(self._prefill if self._measured_whole else None, seconds)
            self._measured_whole = True
        elif 2 * prefilled >= self._chunk and not self._measured_whole:
            self._prefill = _average(self._prefill, seconds * self._chunk / prefilled)

    @property
    def batches(self) -> Mapping[int, float]:
        """How long a decode step of a batch takes, of those that were measured."""
        return MappingProxyType(self._batches)

    @property
    def prefill_tokens_per_s(self) -> float | None:
        """The rate at which a long prompt is prefilled; None before a step was measured."""
        return None if self._prefill is None else self._chunk / self._prefill

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
