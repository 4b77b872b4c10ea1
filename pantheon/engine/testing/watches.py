"""The watches of a scripted engine, in a table of bounded size."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from pantheon.engine.errors import WatchUnavailable


class ScriptedWatch:
    """Implements `pantheon.engine.face.Watch`."""

    def __init__(
        self, key: tuple[str, str], ends_at: float | None, on_close: Callable[[ScriptedWatch], None]
    ) -> None:
        """Hold the session `key` (model and id); `ends_at` is monotonic time, None for no end."""
        self.key = key
        self.closed = False
        self._ends_at = ends_at
        self._on_close = on_close
        self._ended = threading.Event()

    def wait_ended(self, timeout: float) -> bool:
        """See `Watch.wait_ended`."""
        if self._ends_at is None:
            return self._ended.wait(timeout)
        left = max(0.0, self._ends_at - time.monotonic())
        return self._ended.wait(min(left, timeout)) or left <= timeout

    def end(self) -> None:
        """Tell the holder that it is over."""
        self._ended.set()

    def close(self) -> None:
        """See `Watch.close`."""
        if not self.closed:
            self.closed = True
            self._on_close(self)


class Watches:
    """Every watch that is held. Safe to use from any thread."""

    def __init__(self, limit: int, watch_s: float | None) -> None:
        """Hold `limit` at once, each for `watch_s` seconds; None holds it without end."""
        self._limit = limit
        self._watch_s = watch_s
        self._held: list[ScriptedWatch] = []
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._held)

    def add(self, key: tuple[str, str], on_close: Callable[[], None]) -> ScriptedWatch:
        """Hold a session. In a full table an older watch of the same session makes room.

        Raises:
            WatchUnavailable: the table is full of others.
        """

        def remove(watch: ScriptedWatch) -> None:
            with self._lock:
                if watch in self._held:
                    self._held.remove(watch)
            on_close()

        with self._lock:
            if len(self._held) >= self._limit:
                older = next((watch for watch in self._held if watch.key == key), None)
                if older is None:
                    raise WatchUnavailable(f"all {self._limit} watches are held")
                self._held.remove(older)
                older.end()
            ends_at = None if self._watch_s is None else time.monotonic() + self._watch_s
            watch = ScriptedWatch(key, ends_at, remove)
            self._held.append(watch)
            return watch

    def end(self, model: str | None = None) -> None:
        """End the watches of one model, or all."""
        with self._lock:
            for watch in self._held:
                if model is None or watch.key[0] == model:
                    watch.end()
