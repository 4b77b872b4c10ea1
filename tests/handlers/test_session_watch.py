"""The stream of `GET /session/watch`, and when its watch is let go (reference, there)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from pantheon.engine import (
    Engine,
    InvalidRequest,
    ModelNotFound,
    SessionCachingDisabled,
    WatchUnavailable,
)
from pantheon.engine.testing import ScriptedEngine
from pantheon.generated.operations import (
    EventStream,
    SseComment,
    WatchSession200EventStream,
    WatchSessionRequest,
)
from pantheon.handlers.session_watch import watch_session
from tests.handlers.calls import Client

ESTABLISHED = SseComment("watch established")


class HeldWatch:
    """A watch that never ends by itself and counts its closes."""

    def __init__(self) -> None:
        self.closes = 0
        self.waits: list[float] = []

    def wait_ended(self, timeout: float) -> bool:
        self.waits.append(timeout)
        time.sleep(min(timeout, 0.01))
        return False

    def close(self) -> None:
        self.closes += 1


class CountedEngine(ScriptedEngine):
    """An engine whose watches are `HeldWatch`es."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[HeldWatch] = []

    def watch_session(self, model: str | None, session_id: str) -> HeldWatch:  # type: ignore[override]
        self.held.append(HeldWatch())
        return self.held[-1]


def watch(
    engine: Engine,
    session_id: str | None = "s",
    header: str | None = None,
    name: str | None = None,
    client: Client | None = None,
    head: bool = False,
    keepalive_s: float = 0.0,
) -> EventStream[SseComment]:
    request = WatchSessionRequest(
        client=client or Client(),
        head=head,
        session_id=session_id,
        name=name,
        x_session_id=header,
    )
    response = watch_session(engine, request, keepalive_s)
    assert isinstance(response, WatchSession200EventStream)
    return response.events


def test_comment_comes_at_once_and_the_stream_ends_with_the_watch() -> None:
    engine = ScriptedEngine()
    events = watch(engine)
    assert len(engine.watches) == 1
    assert next(events) == ESTABLISHED
    threading.Timer(0.05, engine.drain).start()
    assert list(events) == []
    events.close()
    assert len(engine.watches) == 0


def test_stream_ends_when_the_client_leaves() -> None:
    engine = CountedEngine()
    events = watch(engine, client=Client(looks=3))
    assert list(events) == [ESTABLISHED]
    (held,) = engine.held
    assert len(held.waits) == 3
    assert max(held.waits) <= 0.25
    assert held.closes == 0
    events.close()
    assert held.closes == 1


@pytest.mark.parametrize("taken", [0, 1, 2])
def test_watch_is_let_go_exactly_once(taken: int) -> None:
    """Also when no event was ever asked for, and when the stream is asked on after its close."""
    engine = CountedEngine()
    events = watch(engine, client=Client(looks=2), keepalive_s=0.0)
    for _ in range(taken):
        next(events, None)
    events.close()
    events.close()
    assert next(events, None) is None
    assert [held.closes for held in engine.held] == [1]


def test_keepalive_comments_come_only_when_asked_for() -> None:
    engine = CountedEngine()
    assert list(watch(engine, client=Client(looks=10))) == [ESTABLISHED]
    events = watch(engine, client=Client(looks=10), keepalive_s=0.02)
    comments = list(events)
    assert comments[0] == ESTABLISHED
    assert 1 <= len(comments) - 1 <= 6
    assert set(comments[1:]) == {SseComment("keep-alive")}


def test_head_holds_nothing() -> None:
    """A watch that ends at once would start the grace period of a session that is in use."""
    engine = CountedEngine()
    watch(engine, head=True).close()
    assert engine.held == []
    with pytest.raises(ModelNotFound):
        watch(engine, name="nope", head=True)
    with pytest.raises(InvalidRequest):
        watch(engine, None, head=True)


@pytest.mark.parametrize(
    ("refusal", "call"),
    [
        (InvalidRequest, lambda: watch(ScriptedEngine(), None)),
        (InvalidRequest, lambda: watch(ScriptedEngine(), "", "")),
        (ModelNotFound, lambda: watch(ScriptedEngine(), name="nope")),
        (ModelNotFound, lambda: watch(ScriptedEngine([]))),
        (SessionCachingDisabled, lambda: watch(ScriptedEngine(without_sessions={"scripted"}))),
        (WatchUnavailable, lambda: watch(ScriptedEngine(max_watches=0))),
    ],
)
def test_refusals(refusal: type[Exception], call: Callable[[], object]) -> None:
    with pytest.raises(refusal):
        call()


def test_header_names_the_session_where_the_query_does_not() -> None:
    engine = ScriptedEngine(max_watches=1)
    first = watch(engine, "", "a")
    # The newer watch of the same session takes the place of the older in a full table.
    second = watch(engine, "a", "ignored")
    assert list(first) == [ESTABLISHED]
    for events in (first, second):
        events.close()
