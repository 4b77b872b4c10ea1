"""What gunicorn's arbiter, the parent of the worker, does on signals that stop the server."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

_ONE_SIGNAL_SECONDS: Final = 0.25
"""Two signals of a program come within a millisecond, but who takes them may have to wait for a
processor."""

_STOP: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class StopSignals:
    """The first signal lets the worker drain, a second one of any kind ends it at once.

    gunicorn would take a second SIGTERM for nothing, the first SIGINT for the second, and SIGHUP
    for a wish to run two workers for a while, with the models twice in memory.
    """

    def __init__(self, arbiter: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._arbiter = arbiter
        self._clock = clock
        self._first: tuple[int, float] | None = None
        """The signal that began the drain, and when."""

    def install(self) -> None:
        """Take the signals over, in the arbiter's main thread."""
        for number in _STOP:
            signal.signal(number, self._stop)
        # It would run a second server, models and all, beside this one.
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        now = self._clock()
        if self._first is None:
            self._first = (number, now)
            self._arbiter.SIG_QUEUE.put_nowait(signal.SIGTERM)
            return
        # Who signals a process and then its group, as coreutils' timeout does, means it once.
        first, began = self._first
        if number == first and now - began < _ONE_SIGNAL_SECONDS:
            return
        # Told directly, since the arbiter drops a signal that reaches its queue with the first.
        for pid in tuple(self._arbiter.WORKERS):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGQUIT)
        self._arbiter.SIG_QUEUE.put_nowait(signal.SIGQUIT)


def install_stop_signals(arbiter: Any) -> None:
    """gunicorn's hook `when_ready`, called in the arbiter once it has its own handlers."""
    StopSignals(arbiter).install()
