"""Which sessions are live (reference, session routes and `/session/watch`; scenarios 166, 170)."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pantheon.engine.cache import Conversation, Session, SessionSlotsFull, SessionTable

_TTL, _GRACE = 12 * 3600.0, 45.0


class _Table:
    """A table that remembers what it forgot."""

    def __init__(self, max_sessions: int = 2) -> None:
        self.forgotten: list[Conversation] = []
        self.table = SessionTable(
            max_sessions=max_sessions,
            idle_ttl_s=_TTL,
            watch_grace_s=_GRACE,
            forget=self._forget,
        )

    def _forget(self, conversations: Iterable[Conversation]) -> None:
        self.forgotten.extend(conversations)

    def turn(self, session_id: str, now: float) -> Session:
        """A turn that leaves a conversation behind."""
        session = self.table.require(session_id, now)
        self.table.begin_turn(session, now)
        session.conversations.append(Conversation((1, 2), 1, 1, (2,), (0,)))
        self.table.end_turn(session, now)
        return session


def test_an_idle_session_goes_after_the_ttl_and_its_conversations_with_it() -> None:
    """Reference, release: 12 h idle timeout by default."""
    bench = _Table()
    session = bench.turn("a", 100.0)
    kept = list(session.conversations)
    assert bench.table.get("a", 100.0 + _TTL - 1) is session
    assert bench.table.get("a", 100.0 + _TTL) is None
    assert bench.forgotten == kept and not session.live


def test_every_turn_begins_the_ttl_anew() -> None:
    bench = _Table()
    session = bench.turn("a", 0.0)
    bench.turn("a", _TTL - 1)
    assert bench.table.get("a", _TTL + 100) is session


def test_a_session_in_mid_turn_is_never_reaped() -> None:
    bench = _Table()
    session = bench.turn("a", 0.0)
    bench.table.begin_turn(session, 1.0)
    assert bench.table.get("a", 10 * _TTL) is session
    bench.table.end_turn(session, 10 * _TTL)
    assert bench.table.get("a", 10 * _TTL + 1) is session, "it was just used"
    assert bench.table.get("a", 11 * _TTL) is None


def test_a_watched_session_is_never_reaped_for_idleness() -> None:
    """Reference, watch: while it is held the session is never reaped."""
    bench = _Table()
    session = bench.turn("a", 0.0)
    bench.table.watch("a")
    assert bench.table.get("a", 10 * _TTL) is session


def test_the_end_of_a_watch_releases_the_session_after_the_grace_period() -> None:
    """Reference, watch: 45 s grace by default, unless a new watch arrives first."""
    bench = _Table()
    session = bench.turn("a", 0.0)
    bench.table.watch("a")
    bench.table.unwatch("a", 10.0)
    assert bench.table.get("a", 10.0 + _GRACE - 0.1) is session
    assert bench.table.get("a", 10.0 + _GRACE) is None


def test_a_new_watch_within_the_grace_period_keeps_the_session() -> None:
    bench = _Table()
    session = bench.turn("a", 0.0)
    bench.table.watch("a")
    bench.table.unwatch("a", 10.0)
    bench.table.expire(20.0)
    bench.table.watch("a")
    assert bench.table.get("a", 10 * _TTL) is session
    bench.table.unwatch("a", 10 * _TTL)
    assert bench.table.get("a", 10 * _TTL + _GRACE) is None


def test_of_two_watches_the_last_one_counts() -> None:
    """A client that comes back before its dead connection was noticed."""
    bench = _Table()
    session = bench.turn("a", 0.0)
    bench.table.watch("a")
    bench.table.watch("a")
    bench.table.unwatch("a", 10.0)
    assert bench.table.get("a", 10.0 + 2 * _GRACE) is session
    bench.table.unwatch("a", 200.0)
    assert bench.table.get("a", 200.0 + _GRACE) is None
    bench.table.check()


def test_the_grace_period_of_a_busy_session_ends_with_its_turn() -> None:
    bench = _Table()
    session = bench.turn("a", 0.0)
    bench.table.begin_turn(session, 1.0)
    bench.table.watch("a")
    bench.table.unwatch("a", 2.0)
    assert bench.table.get("a", 500.0) is session
    bench.table.end_turn(session, 500.0)
    assert bench.table.get("a", 500.0) is None


def test_an_id_can_be_watched_before_its_session_exists() -> None:
    bench = _Table()
    bench.table.watch("a")
    session = bench.turn("a", 1.0)
    assert bench.table.get("a", 10 * _TTL) is session
    bench.table.unwatch("a", 10 * _TTL)
    bench.table.expire(10 * _TTL + _GRACE)
    assert not len(bench.table)


def test_a_hold_without_a_session_is_forgotten_after_its_grace_period() -> None:
    """A session that comes later owes nothing to it."""
    bench = _Table()
    bench.table.watch("a")
    bench.table.unwatch("a", 0.0)
    bench.table.expire(_GRACE)
    session = bench.turn("a", _GRACE + 1)
    assert bench.table.get("a", _GRACE + 100) is session


def test_release_frees_the_slot_at_once_and_is_idempotent() -> None:
    """Reference, release: an unknown or already freed session too."""
    bench = _Table(max_sessions=1)
    session = bench.turn("a", 0.0)
    kept = list(session.conversations)
    for _ in range(2):
        bench.table.release("a")
    bench.table.release("nobody")
    assert bench.forgotten == kept and not session.live and not session.conversations
    assert bench.table.require("b", 1.0) is not session


def test_a_session_released_in_mid_turn_is_another_one_afterwards() -> None:
    bench = _Table()
    session = bench.turn("a", 0.0)
    bench.table.begin_turn(session, 0.0)
    bench.table.release("a")
    again = bench.turn("a", 1.0)
    assert again is not session and not session.live
    bench.table.end_turn(session, 2.0)
    assert again.turns == 0 and bench.table.get("a", 3.0) is again


def test_more_ids_than_slots_are_refused_and_known_ones_are_not() -> None:
    """Scenario 166: `max_sessions` 2, a third id; a second conversation takes no slot."""
    bench = _Table()
    first = bench.turn("a", 0.0)
    bench.turn("b", 0.0)
    with pytest.raises(SessionSlotsFull):
        bench.table.require("c", 1.0)
    assert bench.turn("a", 1.0) is first and len(first.conversations) == 2
    bench.table.release("b")
    assert bench.table.require("c", 2.0).id == "c"


def test_slots_are_free_that_no_live_session_has() -> None:
    """Reference, `max_sessions`; 12 h idle timeout by default."""
    bench = _Table(max_sessions=2)
    assert bench.table.free(0.0) == 2
    bench.turn("a", 0.0)
    bench.turn("b", 10.0)
    assert bench.table.free(20.0) == 0
    assert bench.table.free(_TTL + 1) == 1, "nobody has looked at the table since"


def test_a_session_that_holds_nothing_gives_its_slot_back() -> None:
    """Its pages went to others, or its turn was refused before anything was computed."""
    bench = _Table()
    evicted, refused = bench.turn("a", 0.0), bench.table.require("b", 0.0)
    evicted.conversations.clear()
    for session_id in "cd":
        bench.turn(session_id, 1.0)
    assert not evicted.live and not refused.live and len(bench.table) == 2


def test_clear_ends_everything() -> None:
    bench = _Table()
    session = bench.turn("a", 0.0)
    bench.table.watch("a")
    bench.table.clear()
    assert not session.live and not len(bench.table) and len(bench.forgotten) == 1
    bench.table.check()


class _Life(RuleBasedStateMachine):
    """Random turns, watches and releases, against what the reference says of each id."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = _Table(max_sessions=3)
        self.now = 0.0
        self.busy: list[Session] = []
        self.watched: list[str] = []

    @rule(session_id=st.sampled_from("abcd"))
    def begin(self, session_id: str) -> None:
        try:
            session = self.bench.table.require(session_id, self.now)
        except SessionSlotsFull:
            assert len(self.bench.table) == 3
            return
        self.bench.table.begin_turn(session, self.now)
        self.busy.append(session)

    @rule(choice=st.integers(0, 9), keeps=st.booleans())
    def end(self, choice: int, keeps: bool) -> None:
        if self.busy:
            session = self.busy.pop(choice % len(self.busy))
            if keeps and session.live:
                session.conversations.append(Conversation((1, 2), 1, 1, (2,), (0,)))
            self.bench.table.end_turn(session, self.now)

    @rule(session_id=st.sampled_from("abcd"), comes=st.booleans())
    def watch(self, session_id: str, comes: bool) -> None:
        self.bench.table.expire(self.now)
        if comes:
            self.bench.table.watch(session_id)
            self.watched.append(session_id)
        elif session_id in self.watched:
            self.watched.remove(session_id)
            self.bench.table.unwatch(session_id, self.now)

    @rule(session_id=st.sampled_from("abcd"))
    def release(self, session_id: str) -> None:
        self.bench.table.release(session_id)

    @rule(seconds=st.sampled_from([1.0, _GRACE, _TTL]))
    def wait(self, seconds: float) -> None:
        held = {s.id: s for s in self.busy if s.live}
        for session_id in self.watched:
            session = self.bench.table.get(session_id, self.now)
            if session is not None and session.conversations:
                held[session_id] = session
        self.now += seconds
        for session_id, session in held.items():
            assert self.bench.table.get(session_id, self.now) is session

    @invariant()
    def adds_up(self) -> None:
        self.bench.table.check()
        assert len(self.bench.table) <= 3


TestLife = _Life.TestCase
TestLife.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
