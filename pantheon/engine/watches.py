"""Watches: connections that hold a session alive (reference, `GET /session/watch`)."""

from __future__ import annotations

import threading
from collections.abc import Callable

from pantheon.engine.errors import WatchUnavailable


class SessionWatch:
    """One hold; implements `pantheon.engine.face.Watch`."""

    def __init__(self, owner: object, session_id: str, let_go: Callable[[SessionWatch], None]):
        """Hold `session_id` of `owner`, a model, until `close`, which calls `let_go` once."""
        self.owner = owner
        self.session_id = session_id
        self._let_go = let_go
        self._ended = threading.Event()
        self._once = threading.Lock()
        self._closed = False

    def wait_ended(self, timeout: float) -> bool:
        """See `Watch.wait_ended`."""
        return self._ended.wait(timeout)

    def end(self) -> None:
        """End the hold from the engine's side; its connection closes it then."""
        self._ended.set()

    def close(self) -> None:
        """See `Watch.close`."""
        with self._once:
            if self._closed:
                return
            self._closed = True
        self._ended.set()
        self._let_go(self)


class WatchTable:
    """Every watch of this process, over all models: each costs a thread, so they are bounded.

    Safe to use from any thread.
    """

    def __init__(self, most: int) -> None:
        """Start with none of at most `most` watches."""
        self._most = most
        self._lock = threading.Lock()
        # In the order in which they came.
        self._open: dict[SessionWatch, Callable[[], None]] = {}

    def open(
        self, owner: object, session_id: str, began: Callable[[], None], ended: Callable[[], None]
    ) -> SessionWatch:
        """Hold a session.

        In a full table a new watch takes the place of the oldest one of the same session: that
        is a client which came back before its dead connection was noticed.

        Args:
            owner: the model.
            began, ended: called when the hold begins and when it ends.

        Raises:
            WatchUnavailable: the table is full.
        """
        with self._lock:
            replaced = None
            if len(self._open) >= self._most:
                replaced = next(
                    (w for w in self._open if w.owner is owner and w.session_id == session_id),
                    None,
                )
                if replaced is None:
                    raise WatchUnavailable(
                        f"all {self._most} watches that this server holds at once are taken"
                    )
            began()
            watch = SessionWatch(owner, session_id, self._close)
            self._open[watch] = ended
            replaced_ended = None if replaced is None else self._open.pop(replaced)
        if replaced is not None and replaced_ended is not None:
            replaced.end()
            replaced_ended()
        return watch

    def end_all(self, owner: object) -> None:
        """End every watch of a model."""
        with self._lock:
            watches = [watch for watch in self._open if watch.owner is owner]
        for watch in watches:
            watch.end()

    def __len__(self) -> int:
        """Watches held."""
        return len(self._open)

    def _close(self, watch: SessionWatch) -> None:
        with self._lock:
            ended = self._open.pop(watch, None)
        # None: another watch has taken its place.
        if ended is not None:
            ended()
