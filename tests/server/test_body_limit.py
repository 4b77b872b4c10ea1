"""The limit of a body: 413, an addition to the reference."""

from __future__ import annotations

import contextlib
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


@pytest.mark.parametrize("expect", [[], ["Expect: 100-continue"]], ids=["waits not", "expects"])
@pytest.mark.parametrize(
    ("path", "length", "status", "kind"),
    [
        (CHAT, LIMIT + 1, 413, "invalid_request_error"),
        (CHAT, 10**18, 413, "invalid_request_error"),
        ("/v1/unknown", 100, 404, "not_found"),
        ("/v1/unknown", 10**9, 404, "not_found"),
    ],
)
def test_what_needs_no_body_is_answered_before_one_comes(
    small_server: Server, path: str, length: int, status: int, kind: str, expect: list[str]
) -> None:
    """Nor is the client told to go on."""
    started = time.monotonic()
    head = request_bytes("POST", path, None, f"Content-Length: {length}", *expect)
    answer = exchange(small_server, head)
    assert (answer.status, answer.error_type()) == (status, kind)
    assert time.monotonic() - started < 2


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


def test_chunked_body_without_an_end_is_413(small_server: Server) -> None:
    head = request_bytes("POST", CHAT, None, "Transfer-Encoding: chunked")
    answer = exchange(small_server, head + b"fffffff\r\n" + b"a" * 200_000)
    assert (answer.status, answer.error_type()) == (413, "invalid_request_error")


@pytest.mark.parametrize("chunk_size", [None, 1000, 1_000_000])
def test_largest_body_is_served_however_it_is_cut(server: Server, chunk_size: int | None) -> None:
    body = body_of(16 * 2**20)
    if chunk_size is None:
        answer = post_chat(server, body, timeout=30)
    else:
        cuts = range(0, len(body), chunk_size)
        chunks = (body[at : at + chunk_size] for at in cuts)
        data = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
        head = request_bytes("POST", CHAT, None, "Transfer-Encoding: chunked")
        answer = exchange(server, head + data + b"0\r\nA: trailer\r\n\r\n", timeout=30)
    assert answer.status == 200
    assert (
        answer.json()["choices"][0]["message"]["content"]
        == json.loads(body)["messages"][0]["content"]
    )


def test_bodies_that_arrive_together_are_bounded(server: Server) -> None:
    """What is over the bound is refused at once as busy, to be sent again."""
    almost = request_bytes("POST", CHAT, None, f"Content-Length: {16 * 2**20}") + b" " * (2**24 - 1)
    with contextlib.ExitStack() as stack:
        crowd = [stack.enter_context(connect(server)) for _ in range(17)]
        for sock in crowd:
            sock.sendall(almost)
        answer = exchange(server, almost)
        assert (answer.status, answer.error_type()) == (429, "server_busy")
        assert answer.header("retry-after") == ["1"]
        assert post_chat(server, say("small")).status == 200
        crowd[0].sendall(b" ")
        assert parse_answer(read_all(crowd[0])).status == 400
    assert post_chat(server, body_of(16 * 2**20), timeout=30).status == 200


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
