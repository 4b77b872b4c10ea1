"""The limit of a body: 413, an addition to the reference."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from tests.server.process import Server, start_server
from tests.server.wire import (
    CHAT,
    connect,
    exchange,
    parse_answer,
    post_chat,
    read_all,
    request_bytes,
    say,
)

pytestmark = pytest.mark.server

LIMIT = 10_000


@pytest.fixture(scope="module")
def small_server() -> Iterator[Server]:
    with start_server(environment={"PANTHEON_MAX_BODY_BYTES": str(LIMIT)}) as started:
        yield started


def body_of(size: int) -> bytes:
    """A chat of exactly `size` bytes."""
    empty = len(json.dumps(say("")))
    return json.dumps(say("a" * (size - empty))).encode()


def test_body_at_the_limit_is_served(small_server: Server) -> None:
    assert post_chat(small_server, body_of(LIMIT)).status == 200


def test_announced_body_over_the_limit_is_413_before_it_is_read(small_server: Server) -> None:
    head = f"POST {CHAT} HTTP/1.1\r\nContent-Length: 1000000000000\r\n\r\n".encode()
    started = time.monotonic()
    with connect(small_server) as sock:
        sock.sendall(head + b"{" * 70_000)
        answer = parse_answer(read_all(sock))
    assert (answer.status, answer.error_type()) == (413, "invalid_request_error")
    assert str(LIMIT) in answer.json()["error"]["message"]
    assert time.monotonic() - started < 5


def test_whole_body_over_the_limit_is_413(small_server: Server) -> None:
    """Also a client that sends everything before it reads gets the answer, not a reset."""
    answer = post_chat(small_server, body_of(20_000_000))
    assert (answer.status, answer.error_type()) == (413, "invalid_request_error")
    assert answer.header("access-control-allow-origin") == ["*"]
    assert answer.header("connection") == ["close"]


def test_chunked_body_over_the_limit_is_413(small_server: Server) -> None:
    head = request_bytes("POST", CHAT, None, "Transfer-Encoding: chunked")
    chunk = b"1000\r\n" + b"a" * 0x1000 + b"\r\n"
    answer = exchange(small_server, head + chunk * 3 + b"0\r\n\r\n")
    assert (answer.status, answer.error_type()) == (413, "invalid_request_error")


def test_client_that_expects_100_gets_413_or_the_answer(small_server: Server) -> None:
    body = body_of(5000)
    head = request_bytes("POST", CHAT, None, f"Content-Length: {len(body)}", "Expect: 100-continue")
    with connect(small_server) as sock:
        sock.sendall(head)
        assert sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(body)
        assert parse_answer(read_all(sock)).status == 200


def test_body_shorter_than_announced_is_400(small_server: Server) -> None:
    head = f"POST {CHAT} HTTP/1.1\r\nContent-Length: 9000\r\n\r\n".encode()
    with connect(small_server) as sock:
        sock.sendall(head + json.dumps(say("hi")).encode())
        sock.shutdown(1)
        assert read_all(sock) == b""
    assert post_chat(small_server, say("hi")).status == 200
