"""More connections than the server has places or descriptors for (scenarios 199 and 200)."""

from __future__ import annotations

import contextlib
import shlex
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pantheon.http.server_options import gunicorn_options
from pantheon.settings import Settings
from tests.server.process import (
    ROOT,
    SCRIPTED_APP,
    Server,
    start_process,
    start_server,
    stop_process,
    wait_ready,
)
from tests.server.wire import (
    CHAT,
    connect,
    exchange,
    get,
    parse_answer,
    post_chat,
    read_all,
    say,
    stream_request,
)

pytestmark = pytest.mark.server

SMALL = {"PANTHEON_MAX_MODELS": "1", "PANTHEON_MAX_WATCHES": "0", "BS_QUEUE_DEPTH": "0"}
"""The smallest table there is."""

GRACE_SECONDS = 1.2
"""Longer than a connection is spared whatever it waits for."""

HALF_A_HEAD = b"GET / HT"
HALF_A_BODY = f"POST {CHAT} HTTP/1.1\r\nContent-Length: 500\r\n\r\n{{".encode()


def places() -> int:
    settings = Settings.from_environment(SMALL)
    options = gunicorn_options("", 0, settings.threads, 0)
    return int(options["worker_connections"])


@pytest.fixture(scope="module")
def small() -> Iterator[Server]:
    """Its own deadlines are too long to help."""
    environment = {**SMALL, "PANTHEON_HEAD_TIMEOUT_MS": "600000"}
    with start_server(environment=environment) as server:
        yield server


def crowd(
    server: Server, stack: contextlib.ExitStack, data: bytes, count: int
) -> list[socket.socket]:
    sockets = []
    for _ in range(count):
        sock = stack.enter_context(connect(server))
        sock.sendall(data)
        sockets.append(sock)
    return sockets


@pytest.mark.parametrize("data", [b"", HALF_A_HEAD, HALF_A_BODY], ids=["none", "head", "body"])
def test_others_are_served_when_those_who_dawdle_take_every_place(
    small: Server, data: bytes
) -> None:
    with contextlib.ExitStack() as stack:
        sockets = crowd(small, stack, data, places() + 20)
        assert get(small, "/").status == 200
        assert post_chat(small, say("words 1")).status == 200
        time.sleep(GRACE_SECONDS)
        late = crowd(small, stack, data, 40)
        assert get(small, "/").status == 200
        # The first to come are the first to go.
        received = read_all(sockets[0])
        if data:
            answer = parse_answer(received)
            assert (answer.status, answer.error_type()) == (429, "server_busy")
            assert answer.header("retry-after") == ["1"]
        else:
            assert received == b""
        with pytest.raises(BlockingIOError):
            late[-1].setblocking(False)
            late[-1].recv(1)


def test_a_body_on_its_way_is_dearer_than_a_head(small: Server) -> None:
    body = b'{"messages":[{"role":"user","content":"words 1"}]}'
    head = f"POST {CHAT} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with contextlib.ExitStack() as stack:
        upload = stack.enter_context(connect(small))
        upload.sendall(head + body[:10])
        crowd(small, stack, HALF_A_HEAD, places() - 20)
        time.sleep(GRACE_SECONDS)
        crowd(small, stack, HALF_A_HEAD, 40)
        assert get(small, "/").status == 200
        upload.sendall(body[10:])
        assert parse_answer(read_all(upload)).status == 200


def test_a_running_answer_is_not_given_up(small: Server) -> None:
    with contextlib.ExitStack() as stack:
        stream = stack.enter_context(connect(small, timeout=20))
        stream.sendall(stream_request("slow 100", max_tokens=30))
        head = stream.recv(65536)
        crowd(small, stack, b"", places() + 20)
        assert (head + read_all(stream)).endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")


def test_descriptors_that_run_out_keep_nobody_from_the_door(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "gunicorn", "-c", str(ROOT / "gunicorn.conf.py"))
    limited = ("sh", "-c", f"ulimit -n 100 && exec {shlex.join((*command, SCRIPTED_APP))}")
    log = tmp_path / "log"
    with log.open("wb") as output, contextlib.ExitStack() as stack:
        process = start_process(limited, SMALL, output)
        try:
            server = Server(*wait_ready(process, log, 60), process.pid, log)
            assert "open files to be allowed, got 100" in log.read_text()
            crowd(server, stack, b"", 200)
            assert get(server, "/").status == 200
            assert exchange(server, stream_request("words 2")).status == 200
        finally:
            stop_process(process)
