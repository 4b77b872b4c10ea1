"""Work on a model that waits until nothing runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pantheon.engine.runner import Runner


class Upkeep(Protocol):
    """What the engine thread does while no sequence runs or waits."""

    @property
    def due_in_s(self) -> float | None:
        """Seconds until it is due, 0 when it is; None when nothing is to be done."""
        ...

    def run(self) -> None:
        """Do what is due. Afterwards it is due later, or never."""
        ...


class PageUpkeep:
    """Brings pages of attention layers from host memory back to their die."""

    def __init__(self, runner: Runner, moved: Callable[[], None]) -> None:
        """Look after the pages of a runner.

        Args:
            moved: called when they may have come to the die.
        """
        self._runner = runner
        self._moved = moved

    @property
    def due_in_s(self) -> float | None:
        """See `Upkeep`."""
        return self._runner.attention.due_in_s

    def run(self) -> None:
        """See `Upkeep`."""
        self._runner.bring_back()
        self._moved()
