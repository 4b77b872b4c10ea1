"""Work for the engine thread that is no step, done in pieces between steps."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator


class Job:
    """An iterator whose every `next` is one piece of the work."""

    def __init__(self, pieces: Iterator[None]) -> None:
        self._pieces = pieces
        self._done = threading.Event()
        self._error: Exception | None = None

    def wait(self) -> None:
        """Wait for the end.

        Raises:
            Exception: what a piece raised, or why the job was given up.
        """
        self._done.wait()
        if self._error is not None:
            raise self._error

    def step(self) -> bool:
        """Do the next piece; True when it was the last. The engine thread calls it.

        Raises:
            Exception: what the piece raised. Whoever waits hears of it from `give_up`, once the
                engine has recovered: what they ask for next must not meet the failure.
        """
        try:
            next(self._pieces)
        except StopIteration:
            self._done.set()
            return True
        except Exception as error:
            self._error = error
            raise
        return False

    def give_up(self, error: Exception) -> None:
        """End the job with an error for whoever waits: its own, or else this one."""
        self._error = self._error or error
        self._done.set()


class Jobs:
    """Jobs in the order in which they came. The owner's lock guards `add` and `empty`."""

    def __init__(self) -> None:
        self._waiting: deque[Job] = deque()

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self._waiting

    def add(self, job: Job) -> None:
        """Queue a job."""
        self._waiting.append(job)

    def step(self) -> None:
        """Do one piece of the oldest job, if there is one.

        Raises:
            Exception: what the piece raised; `give_up` must follow.
        """
        if self._waiting and self._waiting[0].step():
            self._waiting.popleft()

    def give_up(self, error: Exception) -> None:
        """End every job with an error."""
        while self._waiting:
            self._waiting.popleft().give_up(error)
