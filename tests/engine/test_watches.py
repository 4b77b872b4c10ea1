"""The table of watches (reference, `GET /session/watch`, 503 `watch_unavailable`)."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from pantheon.engine.errors import WatchUnavailable
from pantheon.engine.watches import SessionWatch, WatchTable

_MODEL, _OTHER = object(), object()


class _Holds:
    """Counts holds as a session table does."""

    def __init__(self, most: int) -> None:
        self.table = WatchTable(most)
        self.held: Counter[str] = Counter()
        self.ever: Counter[str] = Counter()
        self._lock = threading.Lock()

    def open(self, session_id: str, owner: object = _MODEL) -> SessionWatch:
        def change(by: int) -> None:
            with self._lock:
                self.held[session_id] += by
                self.ever[session_id] += by > 0
                assert self.held[session_id] >= 0

        return self.table.open(owner, session_id, lambda: change(1), lambda: change(-1))


def test_a_full_table_refuses_another_session() -> None:
    holds = _Holds(2)
    holds.open("a")
    holds.open("b")
    with pytest.raises(WatchUnavailable, match="all 2 watches"):
        holds.open("c")
    assert holds.held == {"a": 1, "b": 1} and len(holds.table) == 2


def test_a_table_of_no_places_refuses_everything() -> None:
    with pytest.raises(WatchUnavailable):
        _Holds(0).open("a")


def test_a_closed_watch_makes_room_and_ends_its_hold_once() -> None:
    holds = _Holds(1)
    watch = holds.open("a")
    for _ in range(2):
        watch.close()
    assert holds.held["a"] == 0 and watch.wait_ended(0)
    holds.open("b")


def test_a_session_may_have_several_watches_while_there_is_room() -> None:
    holds = _Holds(3)
    first = holds.open("a")
    holds.open("a")
    assert holds.held["a"] == 2 and not first.wait_ended(0)


def test_in_a_full_table_a_new_watch_takes_the_place_of_its_sessions_oldest() -> None:
    """A client that came back before its dead connection was noticed; it is never unheld."""
    holds = _Holds(3)
    oldest, other, newer = holds.open("a"), holds.open("b"), holds.open("a")
    holds.open("a")
    assert oldest.wait_ended(0) and not other.wait_ended(0) and not newer.wait_ended(0)
    assert holds.held == {"a": 2, "b": 1} and len(holds.table) == 3
    oldest.close()
    assert holds.held["a"] == 2, "its hold had ended already"


def test_the_hold_is_handed_over_without_a_gap() -> None:
    table, order = WatchTable(1), []
    table.open(_MODEL, "a", lambda: order.append("began 1"), lambda: order.append("ended 1"))
    table.open(_MODEL, "a", lambda: order.append("began 2"), lambda: order.append("ended 2"))
    assert order == ["began 1", "began 2", "ended 1"]


def test_the_same_id_of_another_model_is_another_session() -> None:
    holds = _Holds(1)
    holds.open("a")
    with pytest.raises(WatchUnavailable):
        holds.open("a", _OTHER)


def test_end_all_ends_those_of_one_model_and_their_connections_close_them() -> None:
    holds = _Holds(3)
    mine = [holds.open("a"), holds.open("b")]
    other = holds.open("a", _OTHER)
    holds.table.end_all(_MODEL)
    assert all(watch.wait_ended(0) for watch in mine) and not other.wait_ended(0)
    assert len(holds.table) == 3, "their connections still have threads"
    for watch in mine:
        watch.close()
    assert len(holds.table) == 1 and holds.held["b"] == 0


def test_a_hold_that_cannot_begin_takes_no_place() -> None:
    table = WatchTable(1)

    def refuse() -> None:
        raise ValueError("closed")

    with pytest.raises(ValueError, match="closed"):
        table.open(_MODEL, "a", refuse, lambda: None)
    assert len(table) == 0


def test_many_threads_leave_nothing_held() -> None:
    """Every hold that began ends once, whoever closes, replaces or ends it."""
    holds = _Holds(6)
    refused = Counter[str]()

    def client(session_id: str) -> None:
        for turn in range(60):
            try:
                watch = holds.open(session_id)
            except WatchUnavailable:
                refused[session_id] += 1
                continue
            if turn % 3 == 0:
                holds.table.end_all(_MODEL)
            closers = [threading.Thread(target=watch.close) for _ in range(2)]
            for closer in closers:
                closer.start()
            for closer in closers:
                closer.join()

    threads = [threading.Thread(target=client, args=(name,)) for name in "aabbccddee"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(holds.table) == 0 and not any(holds.held.values())
    assert sum(holds.ever.values()) + sum(refused.values()) == 600
