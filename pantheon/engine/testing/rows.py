"""The decode rows of a scripted model and the queue before them."""

from __future__ import annotations

import threading
import time
from collections import deque

from pantheon.engine.errors import ServerBusy, ServerShuttingDown


class Rows:
    """Rows and queue, first come first served. A key stands for a completion."""

    def __init__(self, rows: int, queue_depth: int, queue_wait_s: float) -> None:
        self._rows = rows
        self._queue_depth = queue_depth
        self._queue_wait_s = queue_wait_s
        self._changed = threading.Condition()
        self._holders: set[int] = set()
        self._queue: deque[tuple[int, float]] = deque()
        self._overdue: set[int] = set()
        self._draining = False
        self.closed = False

    @property
    def in_use(self) -> int:
        """Rows that are held."""
        return len(self._holders)

    @property
    def idle(self) -> bool:
        """Whether nothing holds a row or waits for one."""
        with self._changed:
            return not self._holders and not self._queue

    def enter(self, key: int) -> None:
        """Take a row or a place in the queue.

        Raises:
            ServerBusy: there is neither.
            ServerShuttingDown: nothing is admitted any more.
        """
        with self._changed:
            if self._draining:
                raise ServerShuttingDown("the server is shutting down")
            if len(self._holders) < self._rows and not self._queue:
                self._holders.add(key)
            elif len(self._queue) < self._queue_depth:
                self._queue.append((key, time.monotonic() + self._queue_wait_s))
            else:
                raise ServerBusy("every row is taken and the queue is full", retry_after=1)

    def wait(self, key: int, timeout: float) -> bool:
        """See `Completion.wait_admitted`."""
        with self._changed:
            self._changed.wait_for(lambda: key in self._holders or self._draining, timeout)
            if key in self._holders:
                return True
            if self._draining:
                self._remove(key)
                raise ServerShuttingDown("the server is shutting down")
            self._expire()
            if key in self._overdue:
                self._remove(key)
                raise ServerBusy("the wait in the queue ran out", retry_after=1)
            return False

    def leave(self, key: int) -> None:
        """Give back what `key` holds, if anything."""
        with self._changed:
            self._remove(key)

    def drain(self) -> None:
        """Admit nothing more: what waits is refused when it asks, what runs goes on."""
        with self._changed:
            self._draining = True
            self._changed.notify_all()

    def wait_idle(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds until every row is free."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._holders, timeout)

    def close(self) -> None:
        """Admit nothing more and fail what runs."""
        self.drain()
        self.closed = True

    def _expire(self) -> None:
        """Take out of the queue what waited too long; it learns of it when it asks."""
        now = time.monotonic()
        self._overdue |= {key for key, due in self._queue if due <= now}
        self._queue = deque(waiting for waiting in self._queue if waiting[1] > now)

    def _remove(self, key: int) -> None:
        self._expire()
        self._overdue.discard(key)
        self._holders.discard(key)
        self._queue = deque(waiting for waiting in self._queue if waiting[0] != key)
        while self._queue and len(self._holders) < self._rows and not self._draining:
            self._holders.add(self._queue.popleft()[0])
        self._changed.notify_all()
