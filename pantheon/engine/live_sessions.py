"""The sessions of one model as threads see them: the table behind the engine's lock."""

from __future__ import annotations

import threading
from collections.abc import Callable

from pantheon.engine.cache import Conversation, Session, SessionTable


class LiveSessions:
    """Every method may be called from any thread, with or without the lock held."""

    def __init__(
        self, table: SessionTable, lock: threading.Condition, clock: Callable[[], float]
    ) -> None:
        """Guard a table.

        Args:
            lock: reentrant; whoever plans holds it.
            clock: seconds, monotonic.
        """
        self._table = table
        self._lock = lock
        self._clock = clock

    def require(self, session_id: str) -> Session:
        """The session of an id, made if there is none.

        Raises:
            SessionSlotsFull: every slot holds a live session.
        """
        with self._lock:
            return self._table.require(session_id, self._clock())

    @property
    def free(self) -> int:
        """How many sessions may begin."""
        with self._lock:
            return self._table.free(self._clock())

    def find(self, session_id: str) -> Session | None:
        """The live session of an id."""
        with self._lock:
            return self._table.get(session_id, self._clock())

    def conversations(self, session_id: str) -> tuple[Conversation, ...]:
        """What a session keeps right now, least recently used first."""
        with self._lock:
            session = self._table.get(session_id, self._clock())
            return () if session is None else tuple(session.conversations)

    def begin_turn(self, session: Session) -> None:
        """A turn was accepted; the session is busy."""
        with self._lock:
            self._table.begin_turn(session, self._clock())

    def end_turn(self, session: Session) -> None:
        """A turn that `begin_turn` began is over."""
        with self._lock:
            self._table.end_turn(session, self._clock())

    def release(self, session_id: str) -> None:
        """End a session now. Idempotent."""
        with self._lock:
            self._table.expire(self._clock())
            self._table.release(session_id)

    def watch(self, session_id: str) -> None:
        """Hold an id alive until `unwatch`."""
        with self._lock:
            # The grace period of an earlier watch may have run out without anybody looking.
            self._table.expire(self._clock())
            self._table.watch(session_id)

    def unwatch(self, session_id: str) -> None:
        """End one hold of an id."""
        with self._lock:
            self._table.unwatch(session_id, self._clock())

    def clear(self) -> None:
        """End every session."""
        with self._lock:
            self._table.clear()
