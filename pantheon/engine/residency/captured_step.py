"""A step that the device replays as graphs, beside the same step launched kernel by kernel."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final, Protocol, runtime_checkable

from pantheon.engine.residency.backoff import Backoff

_log: Final = logging.getLogger(__name__)


@runtime_checkable
class Executable(Protocol):
    """A compiled step."""

    def __call__(self, *arguments: Any) -> Any:
        """Dispatch it."""


class CaptureFailed(Exception):
    """The device could not record the step."""

    def __init__(self, message: str, *, arguments_lost: bool = False) -> None:
        """Of an attempt to record.

        Args:
            arguments_lost: whether what the step was given is gone, so that it cannot be run
                without graphs in its place; else nothing of it was touched.
        """
        super().__init__(message)
        self.arguments_lost = arguments_lost


class CapturedStep:
    """Runs a step captured where that works, and plainly where it does not: with equal results.

    A capture that fails costs speed alone. It is tried again after a while, a bounded number of
    times, and every failure is a line in the log. Used by one thread.
    """

    def __init__(
        self, name: str, plain: Executable, capture: Callable[[], Executable], backoff: Backoff
    ) -> None:
        """Nothing is captured yet.

        Args:
            plain: the step without graphs.
            capture: compiles the step with graphs; raises `CaptureFailed` where it cannot, as
                the executable that it returns may.
        """
        self._name = name
        self._plain = plain
        self._capture = capture
        self._backoff = backoff
        self._captured: Executable | None = None
        self._exercised = False
        self._is_proven = False
        self.captures = 0
        """Captures that succeeded, in the life of the step: that ran at least once."""
        self.failures = 0
        """Captures that failed, likewise."""

    @property
    def exercised(self) -> bool:
        """Whether the step ran at least once."""
        return self._exercised

    @property
    def captured(self) -> Executable | None:
        """What runs, where that is a captured step."""
        return self._captured

    @property
    def failed(self) -> bool:
        """Whether the newest attempt failed."""
        return self._captured is None and self.failures > 0

    @property
    def gave_up(self) -> bool:
        """Whether it failed and is not tried again."""
        return self.failed and self._backoff.gave_up

    def __call__(self, *arguments: Any) -> Any:
        """Dispatch the step, captured if that works.

        Raises:
            CaptureFailed: it did not, and the arguments are lost. The next call runs plainly.
        """
        self._exercised = True
        if self._captured is None and self._backoff.due:
            self._try_capture()
        if self._captured is not None:
            try:
                results = self._captured(*arguments)
            except CaptureFailed as error:
                self._captured = None
                self._note_failure(error)
                if error.arguments_lost:
                    raise
            else:
                # Only now: what compiles may still fail to record, time after time.
                self._backoff.succeeded()
                if not self._is_proven:
                    self._is_proven = True
                    self.captures += 1
                return results
        return self._plain(*arguments)

    def _try_capture(self) -> None:
        try:
            self._captured = self._capture()
            self._is_proven = False
        except CaptureFailed as error:
            self._note_failure(error)

    def _note_failure(self, error: CaptureFailed) -> None:
        self.failures += 1
        self._backoff.failed()
        outlook = "it is not tried again" if self._backoff.gave_up else "it is tried again later"
        _log.warning("%s runs without graphs, more slowly: %.300s; %s", self._name, error, outlook)
