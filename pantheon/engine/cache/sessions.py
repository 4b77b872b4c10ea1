"""Sessions by id: which are live, held, or to be reaped."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pantheon.engine.cache.conversation import Conversation


class SessionSlotsFull(Exception):
    """Every session slot holds a live session."""


@dataclass(slots=True, eq=False)
class Session:
    """One id with its conversations.

    Attributes:
        conversations: least recently used first.
        turns: turns that are queued or run.
        used_at: when the last turn began or ended, in seconds of the caller's clock.
        live: False once it was released; what still runs then leaves nothing behind.
    """

    id: str
    used_at: float
    conversations: list[Conversation] = field(default_factory=list)
    turns: int = 0
    live: bool = True


@dataclass(slots=True)
class _Hold:
    """Watches of an id.

    Attributes:
        watches: how many are held.
        release_at: when the session goes unless another watch comes; None while one is held.
    """

    watches: int
    release_at: float | None = None


class SessionTable:
    """The live sessions of one model. Not safe for use by several threads at once.

    Nothing is reaped by a thread of its own: whoever looks at the table first calls `expire`.
    An id may be watched before its session exists.
    """

    def __init__(
        self,
        *,
        max_sessions: int,
        idle_ttl_s: float,
        watch_grace_s: float,
        forget: Callable[[Iterable[Conversation]], None],
    ) -> None:
        """Start with no session.

        Args:
            max_sessions: ids that may be live at once.
            idle_ttl_s: seconds without a turn after which an unwatched session goes.
            watch_grace_s: seconds from the end of an id's last watch to its release.
            forget: gives the conversations' pages back.
        """
        self._max_sessions = max_sessions
        self._idle_ttl_s = idle_ttl_s
        self._watch_grace_s = watch_grace_s
        self._forget = forget
        self._sessions: dict[str, Session] = {}
        self._holds: dict[str, _Hold] = {}

    def __len__(self) -> int:
        """Live sessions."""
        return len(self._sessions)

    def free(self, now: float) -> int:
        """How many sessions may begin."""
        self.expire(now)
        return self._max_sessions - len(self._sessions)

    def get(self, session_id: str, now: float) -> Session | None:
        """The live session of an id."""
        self.expire(now)
        return self._sessions.get(session_id)

    def require(self, session_id: str, now: float) -> Session:
        """The live session of an id, made if there is none.

        Raises:
            SessionSlotsFull: it would be one too many.
        """
        session = self.get(session_id, now)
        if session is None:
            if len(self._sessions) >= self._max_sessions:
                raise SessionSlotsFull
            session = self._sessions[session_id] = Session(session_id, now)
        return session

    def begin_turn(self, session: Session, now: float) -> None:
        """A turn was accepted: the session is busy until `end_turn`."""
        session.turns += 1
        session.used_at = now

    def end_turn(self, session: Session, now: float) -> None:
        """A turn is over."""
        session.turns -= 1
        session.used_at = now

    def release(self, session_id: str) -> None:
        """End a session and forget its conversations. An unknown id is one that ended before."""
        session = self._sessions.get(session_id)
        if session is not None:
            self._end(session)

    def watch(self, session_id: str) -> None:
        """Hold an id alive until `unwatch`."""
        hold = self._holds.setdefault(session_id, _Hold(0))
        hold.watches += 1
        hold.release_at = None

    def unwatch(self, session_id: str, now: float) -> None:
        """End one watch of an id; with the last one its grace period begins.

        After `clear` there is nothing to end: the watches outlive the model by a moment.
        """
        hold = self._holds.get(session_id)
        if hold is None:
            return
        hold.watches -= 1
        if not hold.watches:
            hold.release_at = now + self._watch_grace_s

    def expire(self, now: float) -> None:
        """Release what has been idle, or without its watch, for too long."""
        for session_id, hold in tuple(self._holds.items()):
            if hold.release_at is not None and hold.release_at <= now:
                session = self._sessions.get(session_id)
                # A turn that runs keeps its session; the grace period is over when it ends.
                if session is None or not session.turns:
                    del self._holds[session_id]
                    self.release(session_id)
        for session in tuple(self._sessions.values()):
            hold_of = self._holds.get(session.id)
            watched = hold_of is not None and hold_of.watches > 0
            idle = not watched and session.used_at + self._idle_ttl_s <= now
            # One whose pages went to others, or that never came to hold any, needs no slot.
            if not session.turns and (idle or not session.conversations):
                self._end(session)

    def clear(self) -> None:
        """End every session and every hold."""
        for session in tuple(self._sessions.values()):
            self._end(session)
        self._holds.clear()

    def check(self) -> None:
        """Raise AssertionError unless sessions and holds are consistent."""
        assert len(self._sessions) <= self._max_sessions, "more sessions than slots"
        for session_id, session in self._sessions.items():
            assert session.id == session_id and session.live and session.turns >= 0
        for hold in self._holds.values():
            assert (hold.watches > 0) == (hold.release_at is None)

    def _end(self, session: Session) -> None:
        session.live = False
        del self._sessions[session.id]
        conversations, session.conversations = session.conversations, []
        self._forget(conversations)
