"""The memory ladder: what is served less of while memory is short, so that it does not run out."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Final

from pantheon.engine.host_memory import FileDamaged, read_text

_log: Final = logging.getLogger(__name__)

READING_SECONDS: Final = 0.25
"""How long a reading counts."""

_MARGIN: Final = 0.03
"""How far below its threshold the share in use must be for a level to be left."""

_MAX_PRESSURE_BYTES: Final = 64


class Level(IntEnum):
    """How short memory is; each level includes those below."""

    NORMAL = 0
    WINDOW = 1
    """The context window is clamped."""
    ROWS = 2
    """The window is clamped further, and the rows too."""
    REFUSE = 3
    """Nothing is admitted."""


_REACHED_AT: Final = {Level.WINDOW: 0.92, Level.ROWS: 0.95, Level.REFUSE: 0.98}
"""Shares of memory in use from which on a level holds."""


@dataclass(frozen=True, slots=True)
class Clamp:
    """What may be served.

    Attributes:
        window: effective context window in tokens.
        rows: sequences decoded at once.
        admits: whether anything new is admitted.
    """

    window: int
    rows: int
    admits: bool


def clamp(level: Level, window: int, rows: int, page_size: int) -> Clamp:
    """What of a model's window and rows is served at a level.

    | level | window | rows | admits |
    |---|---|---|---|
    | NORMAL | all | all | yes |
    | WINDOW | a half | all | yes |
    | ROWS | a quarter | a half, at least 1 | yes |
    | REFUSE | a quarter | a half, at least 1 | no |

    A clamped window is cut to whole pages and is at least one page, never more than the window.

    Args:
        level: how short memory is.
        window: the configured window in tokens, at least 1.
        rows: the configured rows, at least 1.
        page_size: tokens of a page.
    """
    if level is Level.NORMAL:
        return Clamp(window, rows, admits=True)
    part = window // 2 if level is Level.WINDOW else window // 4
    clamped = min(window, max(page_size, part - part % page_size))
    if level is Level.WINDOW:
        return Clamp(clamped, rows, admits=True)
    return Clamp(clamped, max(1, rows // 2), admits=level is not Level.REFUSE)


def next_level(current: Level, used_share: float) -> Level:
    """The level after a reading.

    It climbs at once to what the reading demands. It falls by one step a reading, and only when
    the share in use is clearly below what had led to the level, so that it does not flap.

    Args:
        current: the level before.
        used_share: share of memory in use, 0 to 1.
    """
    demanded = max((at for at, share in _REACHED_AT.items() if used_share >= share), default=None)
    if demanded is not None and demanded >= current:
        return demanded
    if current is Level.NORMAL or used_share >= _REACHED_AT[current] - _MARGIN:
        return current
    return Level(current - 1)


class MemoryLadder:
    """The level of one memory that holds now. Safe to use from any thread; asking costs a reading
    now and then."""

    def __init__(
        self,
        reading: Callable[[], float],
        *,
        of: str = "memory",
        pressure_file: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start at NORMAL; nothing is read yet.

        Args:
            reading: gives the share of memory in use, 0 to 1, and must not raise.
            of: what memory it is, for the log.
            pressure_file: a file that stands in for it, for tests and drills. Its text is the
                share; no file and no text are no pressure.
            clock: seconds, monotonic.
        """
        self._reading = reading
        self._of = of
        self._pressure_file = pressure_file
        self._clock = clock
        self._lock = threading.Lock()
        self._level = Level.NORMAL
        self._read_at: float | None = None
        self._complaint: str | None = None

    @property
    def level(self) -> Level:
        """The level by a reading of the last 0.25 s, or a new one."""
        with self._lock:
            now = self._clock()
            elapsed = READING_SECONDS if self._read_at is None else now - self._read_at
            if elapsed >= READING_SECONDS:
                self._read_at = now
                share = self._used_share()
                # Nobody may have asked for a while: it falls as if somebody had.
                for _ in range(min(int(elapsed / READING_SECONDS), len(Level))):
                    self._move(share)
            return self._level

    def _move(self, used_share: float) -> None:
        before, self._level = self._level, next_level(self._level, used_share)
        if self._level is not before:
            _log.log(
                logging.WARNING if self._level > before else logging.INFO,
                "%s: %.1f %% in use, level %s after %s",
                self._of,
                100 * used_share,
                self._level.name,
                before.name,
            )

    def _used_share(self) -> float:
        if self._pressure_file is not None:
            return self._injected(self._pressure_file)
        return self._reading()

    def _injected(self, file: Path) -> float:
        try:
            share = _share(file, read_text(file, _MAX_PRESSURE_BYTES))
        except FileDamaged as error:
            # Once for each kind of damage, and not with every reading.
            if str(error) != self._complaint:
                self._complaint = str(error)
                _log.warning("pressure file: %s; it counts as no pressure", error)
            return 0.0
        self._complaint = None
        return share


@dataclass(frozen=True, slots=True)
class MemoryPressure:
    """How short memory is for a model: of the host, which serves all, and of the dies that it is
    on. The shortest decides.

    Attributes:
        dies: by ordinal; a die without a ladder, one of another host, counts as never short.
    """

    host: MemoryLadder
    dies: Mapping[int, MemoryLadder] = field(default_factory=dict)

    def level(self, dies: Iterable[int]) -> Level:
        """The level of a model on some dies, by ordinal."""
        ladders = [self.host, *(self.dies[one] for one in dies if one in self.dies)]
        return max(ladder.level for ladder in ladders)

    def clamp(self, dies: Iterable[int], window: int, rows: int, page_size: int) -> Clamp:
        """What of its window and rows is served now; see the function `clamp`."""
        return clamp(self.level(dies), window, rows, page_size)

    def admits_load(self, named: Sequence[int] | None) -> bool:
        """Whether a model may be loaded now.

        Args:
            named: ordinals of its dies; None or empty for any one die, or the host alone.
        """
        if named or not self.dies:
            return self.level(named or ()) is not Level.REFUSE
        return any(self.level((ordinal,)) is not Level.REFUSE for ordinal in self.dies)


def _share(file: Path, text: str | None) -> float:
    """The share that a pressure file states.

    Raises:
        FileDamaged: it states none from 0 to 1.
    """
    if text is None or not text.strip():
        return 0.0
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0.0 <= share <= 1.0:
        raise FileDamaged(f"expected a number from 0 to 1 in {file}, got {text[:40]!r}")
    return share
