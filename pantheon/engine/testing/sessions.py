"""The sessions of one scripted model."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from pantheon.engine.errors import SessionBusy, SessionCapacity, SessionNotFound


@dataclass(slots=True)
class _Session:
    """One session id.

    Attributes:
        history: tokens that its last turn left.
        turns: turns in flight.
        watches: watches that hold it.
        ends_at: monotonic time in seconds of its end, once its last watch has gone.
    """

    history: tuple[int, ...] = ()
    turns: int = 0
    watches: int = 0
    ends_at: float | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn in flight.

    Attributes:
        session_id: the session that it belongs to.
        cached_tokens: leading tokens of its prompt that need not be computed.
    """

    session_id: str
    cached_tokens: int
    _session: _Session


@dataclass(slots=True)
class Sessions:
    """Sessions by id, each with one conversation. Safe to use from any thread.

    Attributes:
        limit: ids that may hold a history at once.
        watch_grace_s: seconds from the end of a session's last watch to its release.
    """

    limit: int
    watch_grace_s: float
    _by_id: dict[str, _Session] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin_turn(self, session_id: str, prompt: Sequence[int]) -> Turn:
        """Start a turn, which resumes from what its prompt shares with the history.

        Raises:
            SessionCapacity: a new id, and as many as may be are there.
        """
        with self._lock:
            session = self._open(session_id)
            session.turns += 1
            pairs = zip(session.history, prompt[:-1], strict=False)
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
            return Turn(session_id, same, session)

    def end_turn(self, turn: Turn, history: tuple[int, ...] | None) -> None:
        """End a turn that left `history`; None when it left what was there before."""
        with self._lock:
            session = turn._session
            session.turns -= 1
            # A session that was released meanwhile keeps nothing.
            if self._by_id.get(turn.session_id) is session:
                if history is not None:
                    session.history = history
                self._drop_if_empty(turn.session_id, session)

    def history(self, session_id: str) -> tuple[int, ...]:
        """What a session holds.

        Raises:
            SessionNotFound, SessionBusy.
        """
        with self._lock:
            self._expire()
            session = self._by_id.get(session_id)
            if session is not None and session.turns:
                raise SessionBusy(f"a turn is in flight on the session {session_id!r:.100}")
            if session is None or not session.history:
                raise SessionNotFound(f"there is no live session {session_id!r:.100}")
            return session.history

    def restore(self, session_id: str, history: tuple[int, ...]) -> None:
        """Put a history in place of what a session holds.

        Raises:
            SessionCapacity: a new id, and as many as may be are there.
        """
        with self._lock:
            self._open(session_id).history = history

    def release(self, session_id: str) -> None:
        """Forget what a session holds; its watches go on."""
        with self._lock:
            session = self._by_id.pop(session_id, None)
            if session is not None and session.watches:
                self._by_id[session_id] = _Session(watches=session.watches)

    def hold(self, session_id: str) -> None:
        """Count one more watch. A session that holds nothing yet takes no slot."""
        with self._lock:
            self._expire()
            session = self._by_id.setdefault(session_id, _Session())
            session.watches += 1
            session.ends_at = None

    def let_go(self, session_id: str) -> None:
        """Count one watch less; the grace period begins with the last one."""
        with self._lock:
            session = self._by_id.get(session_id)
            if session is None:
                return
            session.watches -= 1
            if not session.watches:
                session.ends_at = time.monotonic() + self.watch_grace_s
                self._drop_if_empty(session_id, session)

    def _open(self, session_id: str) -> _Session:
        self._expire()
        session = self._by_id.get(session_id)
        if session is None or not (session.history or session.turns):
            taken = sum(bool(other.history or other.turns) for other in self._by_id.values())
            if taken >= self.limit:
                raise SessionCapacity(
                    f"all {self.limit} session slots hold live sessions; prefilling this "
                    "conversation again takes about 1 s"
                )
        return self._by_id.setdefault(session_id, _Session())

    def _drop_if_empty(self, session_id: str, session: _Session) -> None:
        if not (session.history or session.turns or session.watches):
            del self._by_id[session_id]

    def _expire(self) -> None:
        now = time.monotonic()
        for session_id, session in list(self._by_id.items()):
            if session.ends_at is not None and session.ends_at <= now and not session.turns:
                del self._by_id[session_id]
