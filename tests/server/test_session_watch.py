"""`GET /session/watch` over a live server (reference, there)."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.server.process import Server, start_server
from tests.server.wire import (
    connect,
    exchange,
    get,
    parse_answer,
    post,
    post_chat,
    read_all,
    request_bytes,
    say,
)

pytestmark = pytest.mark.server

WATCH, EXPORT = "/session/watch", "/admin/session/export"
GRACE_S = 0.5


@pytest.fixture(scope="module")
def watched() -> Iterator[Server]:
    """Two watches at most, and a short grace period."""
    environment = {
        "PANTHEON_MAX_WATCHES": "2",
        "PN_SESSION_WATCH_GRACE_MS": str(int(GRACE_S * 1000)),
        "SCRIPTED_ROWS": "8",
    }
    with start_server(environment=environment) as started:
        yield started


@contextmanager
def watch(server: Server, query: str, *headers: str) -> Iterator[socket.socket]:
    """A watch that is established; tried until there is room for it."""
    deadline = time.monotonic() + 5
    while True:
        with connect(server) as sock:
            sock.sendall(request_bytes("GET", f"{WATCH}?{query}", None, *headers))
            data = sock.recv(65536)
            if b"503" not in data.split(b"\r\n")[0]:
                while b"watch established" not in data:
                    part = sock.recv(65536)
                    assert part, data
                    data += part
                assert b"HTTP/1.1 200 OK" in data
                yield sock
                return
        assert time.monotonic() < deadline
        time.sleep(0.02)


def exists(server: Server, session_id: str) -> bool:
    return post(server, EXPORT, {"session_id": session_id}).status == 200


def begin(server: Server, session_id: str) -> None:
    assert post_chat(server, say("hello", session_id=session_id)).status == 200


def gone_within(server: Server, session_id: str, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not exists(server, session_id):
            return True
        time.sleep(0.05)
    return False


def test_watch_is_held_until_the_client_leaves(watched: Server) -> None:
    begin(watched, "held")
    with watch(watched, "session_id=held") as sock:
        sock.settimeout(3 * GRACE_S)
        with pytest.raises(TimeoutError):
            sock.recv(1)
        assert exists(watched, "held")
    assert exists(watched, "held")
    assert gone_within(watched, "held", 10)


def test_new_watch_within_the_grace_period_keeps_the_session(watched: Server) -> None:
    begin(watched, "kept")
    with watch(watched, "session_id=kept"):
        pass
    with watch(watched, "session_id=kept"):
        time.sleep(2 * GRACE_S)
        assert exists(watched, "kept")
    assert gone_within(watched, "kept", 10)


def test_session_need_not_exist_yet(watched: Server) -> None:
    with watch(watched, "session_id=later"):
        begin(watched, "later")
        time.sleep(2 * GRACE_S)
        assert exists(watched, "later")


def test_header_names_the_session_where_the_query_does_not(watched: Server) -> None:
    begin(watched, "h")
    with watch(watched, "session_id=", "X-Session-Id: h"):
        pass
    assert gone_within(watched, "h", 10)
    begin(watched, "q")
    begin(watched, "h")
    with watch(watched, "session_id=q", "X-Session-Id: h"):
        pass
    assert gone_within(watched, "q", 10)
    assert exists(watched, "h")


def test_head_answers_and_holds_nothing(watched: Server) -> None:
    begin(watched, "looked-at")
    answer = exchange(watched, request_bytes("HEAD", f"{WATCH}?session_id=looked-at"))
    assert (answer.status, answer.body) == (200, b"")
    assert answer.header("content-type") == ["text/event-stream"]
    time.sleep(2 * GRACE_S)
    assert exists(watched, "looked-at")


def test_newer_watch_takes_the_place_of_its_session_in_a_full_table(watched: Server) -> None:
    with watch(watched, "session_id=a") as first, watch(watched, "session_id=b"):
        assert get(watched, f"{WATCH}?session_id=c").error_type() == "watch_unavailable"
        with watch(watched, "session_id=a") as second:
            assert first.recv(100) == b"0\r\n\r\n"
            second.settimeout(0.5)
            with pytest.raises(TimeoutError):
                second.recv(1)


def test_stream_is_whole_when_the_engine_ends_the_watch() -> None:
    """The comment, then nothing, then the end; not one `data:` line."""
    with start_server(environment={"SCRIPTED_WATCH_MS": "50"}) as server, connect(server) as sock:
        sock.sendall(request_bytes("GET", f"{WATCH}?session_id=s"))
        answer = parse_answer(read_all(sock))
    assert answer.status == 200
    assert answer.body == b": watch established\n\n"
    assert answer.header("content-type") == ["text/event-stream"]
    assert answer.header("content-length") == []
    assert answer.header("access-control-allow-origin") == ["*"]
    assert answer.header("connection") == ["close"]


def test_keepalive_comments_are_an_addition_that_a_setting_asks_for() -> None:
    environment = {"SCRIPTED_WATCH_MS": "1000", "PANTHEON_SSE_KEEPALIVE_MS": "200"}
    with start_server(environment=environment) as server, connect(server) as sock:
        sock.sendall(request_bytes("GET", f"{WATCH}?session_id=s"))
        body = parse_answer(read_all(sock)).body
    established, *keepalive = body.decode().removesuffix("\n\n").split("\n\n")
    assert established == ": watch established"
    assert keepalive and set(keepalive) == {": keep-alive"}


def test_unload_ends_the_watches_of_the_model() -> None:
    with start_server() as server, watch(server, "session_id=s") as sock:
        assert post(server, "/admin/models/unload", {"name": "scripted"}).status == 200
        assert sock.recv(100) == b"0\r\n\r\n"
