"""What a server holds: by /proc, and by what it can still give."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psutil

from tests.server.process import Server
from tests.server.stress.wire import TIMEOUT_S
from tests.server.wire import connect, post, post_chat, request_bytes, say, stream_request

_SETTLE_S = 20.0
_ENDLESS: dict[str, Any] = {
    "max_tokens": 1 << 20,
    "temperature": 1.5,
    # The tokens that end an answer in the vocabularies of this family.
    "logit_bias": {"0": -100, "1": -100, "2": -100},
}


@dataclass(frozen=True)
class Held:
    """What the worker process holds while nothing runs."""

    threads: int
    descriptors: int
    resident: int


def held(server: Server, fewest: Held | None = None) -> Held:
    """What is held once nothing runs any more.

    Args:
        fewest: what it is expected to come down to; None waits for idleness alone.
    """
    worker = _worker(server)
    _until(lambda: _idle(worker), "the server computes although nobody asks")
    if fewest is not None:
        _until(
            lambda: worker.num_fds() <= fewest.descriptors,
            "descriptors stay open although every client has gone",
        )
    return Held(worker.num_threads(), worker.num_fds(), worker.memory_info().rss)


def use_threads(server: Server, count: int) -> None:
    """Have as many requests served at once as the server will ever have to.

    The pool makes threads as they are needed and keeps them. So every later count is this one.
    """
    with contextlib.ExitStack() as stack:
        for number in range(count):
            sock = stack.enter_context(connect(server, TIMEOUT_S))
            sock.sendall(request_bytes("GET", f"/session/watch?session_id=thread-{number}"))
            assert b"200 OK" in sock.recv(4096)


def use_every_page(server: Server, rows: int) -> None:
    """Have every row decode at once, each with a whole window: all rows and pages are free.

    A stream opens when its request has a row and the promise of all its pages (reference,
    streaming response; `max_tokens` is cut to the window).
    """
    with contextlib.ExitStack() as stack:
        streams = []
        for number in range(rows):
            sock = stack.enter_context(connect(server, TIMEOUT_S))
            sock.sendall(stream_request(f"go on {number}", **_ENDLESS))
            streams.append(sock)
        received = [sock.recv(65536) for sock in streams]
        assert all(data.startswith(b"HTTP/1.1 200") for data in received), received
        assert not any(b"[DONE]" in data for data in received), "an answer ended too early to tell"
        one_more = stack.enter_context(connect(server, 0.1))
        one_more.sendall(stream_request("wait", max_tokens=1))
        with contextlib.suppress(TimeoutError):
            raise AssertionError(f"more than {rows} rows: {one_more.recv(4096)!r}")
    _until(lambda: _idle(_worker(server)), "rows are held although every client has gone")


def use_every_session(server: Server, count: int) -> None:
    """Fill every session slot and one more: no slot is held by a session that has ended."""
    for number in range(count + 1):
        answer = post_chat(server, say("a", session_id=f"slot-{number}", max_tokens=1))
        assert (answer.status == 200) == (number < count), (number, answer)
    assert answer.error_type() == "model_at_session_capacity"
    for number in range(count):
        path, body = "/session/release", json.dumps({"session_id": f"slot-{number}"}).encode()
        assert post(server, path, body).status == 200


def _worker(server: Server) -> psutil.Process:
    (worker,) = psutil.Process(server.pid).children()
    return worker


def _idle(worker: psutil.Process) -> bool:
    """Whether it uses next to nothing of a core for half a second."""
    before = worker.cpu_times()
    time.sleep(0.5)
    after = worker.cpu_times()
    return after.user + after.system - before.user - before.system < 0.1


def _until(condition: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + _SETTLE_S
    while not condition():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.05)
