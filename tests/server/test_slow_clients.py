"""No client can make others wait, however slowly it sends or reads."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import time
from collections.abc import Iterator

import pytest

from tests.server.process import Server, start_server
from tests.server.wire import CHAT, connect, get, parse_answer, post_chat, read_all, say

pytestmark = pytest.mark.server

CROWD = 200
SETTINGS = {
    "PANTHEON_HEAD_TIMEOUT_MS": "1500",
    "PANTHEON_BODY_TIMEOUT_MS": "1500",
    "PANTHEON_SEND_TIMEOUT_MS": "1000",
    "SCRIPTED_ROWS": "1",
    "BS_QUEUE_DEPTH": "0",
}


@pytest.fixture(scope="module")
def impatient() -> Iterator[Server]:
    with start_server(environment=SETTINGS) as started:
        yield started


@pytest.fixture(scope="module")
def patient() -> Iterator[Server]:
    """A server whose own time limits are too long to help the others."""
    with start_server() as started:
        yield started


def health_seconds(server: Server) -> float:
    started = time.monotonic()
    assert get(server, "/").status == 200
    return time.monotonic() - started


def open_crowd(server: Server, stack: contextlib.ExitStack, data: bytes) -> list[socket.socket]:
    crowd = [stack.enter_context(connect(server)) for _ in range(CROWD)]
    for sock in crowd:
        sock.sendall(data)
    return crowd


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"GET / HT",
        f"POST {CHAT} HTTP/1.1\r\nContent-Length: 500\r\n\r\n{{".encode(),
        f"POST {CHAT} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n".encode(),
        f"POST {CHAT} HTTP/1.1\r\nContent-Length: 200000\r\n\r\n".encode() + b" " * 66_000,
        f"POST {CHAT} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n30000\r\n".encode()
        + b" " * 66_000,
        f"POST {CHAT} HTTP/1.1\r\nContent-Length: 200\r\nExpect: 100-continue\r\n\r\n".encode(),
        f"POST {CHAT} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nTrailer: ".encode(),
    ],
    ids=[
        "say nothing",
        "half a head",
        "half a body",
        "half a chunk",
        "half a large body",
        "half a large chunk",
        "wait for 100 Continue",
        "half a trailer",
    ],
)
def test_others_are_served_beside_a_crowd_that_dawdles(patient: Server, data: bytes) -> None:
    with contextlib.ExitStack() as stack:
        open_crowd(patient, stack, data)
        assert health_seconds(patient) < 1
        started = time.monotonic()
        body = json.dumps(say("a" * 300_000)).encode()
        assert post_chat(patient, body).status == 200
        assert time.monotonic() - started < 2


def test_silent_connection_is_closed(impatient: Server) -> None:
    started = time.monotonic()
    with connect(impatient) as sock:
        assert read_all(sock) == b""
    assert 1 < time.monotonic() - started < 5


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: ",
        f"POST {CHAT} HTTP/1.1\r\nContent-Length: 500\r\n\r\n{{".encode(),
        f"POST {CHAT} HTTP/1.1\r\nContent-Length: 500000\r\n\r\n".encode() + b" " * 100_000,
        f"POST {CHAT} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n".encode(),
    ],
    ids=["head", "body", "large body", "chunk"],
)
def test_request_that_never_ends_is_408(impatient: Server, data: bytes) -> None:
    started = time.monotonic()
    with connect(impatient) as sock:
        sock.sendall(data)
        answer = parse_answer(read_all(sock))
    assert (answer.status, answer.error_type()) == (408, "invalid_request_error")
    assert answer.header("access-control-allow-origin") == ["*"]
    assert answer.header("connection") == ["close"]
    assert time.monotonic() - started < 5


def test_a_byte_now_and_then_does_not_move_the_deadline(impatient: Server) -> None:
    started = time.monotonic()
    with connect(impatient) as sock:
        sock.settimeout(0.1)
        sock.sendall(f"POST {CHAT} HTTP/1.1\r\nContent-Length: 500000\r\n\r\n".encode())
        sock.sendall(b" " * 100_000)
        received = b""
        while not received and time.monotonic() - started < 8:
            sock.sendall(b" ")
            with contextlib.suppress(TimeoutError):
                received = sock.recv(65536)
    assert received.startswith(b"HTTP/1.1 408 ")
    assert time.monotonic() - started < 5


def test_client_that_reads_nothing_frees_its_row(impatient: Server) -> None:
    """Its buffers fill up, and then it takes no byte within the limit."""
    text = "words 400000"
    body = json.dumps(say(text, stream=True, max_tokens=400_000)).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect((impatient.host, impatient.port))
        sock.sendall(head + body)
        assert sock.recv(1)
        assert post_chat(impatient, say("words 1")).status == 429
        deadline = time.monotonic() + 20
        while post_chat(impatient, say("words 1")).status != 200:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.mark.parametrize("sent", [0, 100, 100_000])
def test_client_that_resets_while_it_sends_its_body_is_no_defect(
    patient: Server, sent: int
) -> None:
    """It is closed without a word in the log, and above all without a traceback."""
    head = f"POST {CHAT} HTTP/1.1\r\nContent-Length: 200000\r\n\r\n".encode()
    before = patient.log.read_text()
    for _ in range(5):
        with connect(patient) as sock:
            sock.sendall(head + b" " * sent)
            time.sleep(0.1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert health_seconds(patient) < 1
    assert patient.log.read_text() == before
