"""A connection never waits behind a generation (reference, concurrency and connection model).

Asserted by holding everything that can be held and being answered beside it.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator

import pytest

from tests.server.process import Server, start_server
from tests.server.wire import CHAT, connect, get, post_chat, request_bytes, say, stream_request

pytestmark = pytest.mark.server

WATCHES = 64
MODELS = 4
ROWS = 8
QUEUE = 32


@contextlib.contextmanager
def held(server: Server, requests: list[bytes], is_begun: bool) -> Iterator[None]:
    """Send each request on a connection of its own and leave all open.

    Args:
        server: who is asked.
        requests: what is asked.
        is_begun: whether to wait for the first bytes of each response, so that all are served.
    """
    with contextlib.ExitStack() as stack:
        sockets = []
        for request in requests:
            sock = stack.enter_context(connect(server, timeout=30))
            sock.sendall(request)
            sockets.append(sock)
        for sock in sockets if is_begun else ():
            assert sock.recv(65536).startswith(b"HTTP/1.1 200")
        yield
        if not is_begun:
            for sock in sockets:
                sock.setblocking(False)
                with pytest.raises(BlockingIOError):
                    sock.recv(1)


def watches(count: int) -> list[bytes]:
    path = "/session/watch?session_id=s{}&name=m0"
    return [request_bytes("GET", path.format(index)) for index in range(count)]


def chat(model: str) -> bytes:
    body = json.dumps(say("slow 200", model=model, max_tokens=10_000)).encode()
    return request_bytes("POST", CHAT, body)


def assert_answered(server: Server) -> None:
    for _ in range(3):
        assert get(server, "/").status == 200
    assert get(server, "/v1/models").status == 200
    assert post_chat(server, {"messages": []}).status == 400


def test_watches_queued_chats_and_a_stream_keep_nobody_waiting() -> None:
    """Scenario 200: 64 watches, 40 queued chats, one stream."""
    environment = {"SCRIPTED_MODELS": "m0", "SCRIPTED_ROWS": "1", "BS_QUEUE_DEPTH": "64"}
    with (
        start_server(environment=environment) as server,
        held(server, watches(WATCHES), True),
        held(server, [stream_request("slow 100", max_tokens=10_000)], True),
        held(server, [chat("m0")] * 40, False),
    ):
        assert_answered(server)


def test_everything_that_can_be_held_at_once_keeps_nobody_waiting() -> None:
    """The full table of watches, and rows and queue of as many models as may be loaded."""
    names = [f"m{index}" for index in range(MODELS)]
    environment = {"SCRIPTED_MODELS": ",".join(names), "SCRIPTED_ROWS": str(ROWS)}
    streams = [stream_request("slow 200", model=name, max_tokens=10_000) for name in names] * ROWS
    queued = [chat(name) for name in names] * QUEUE
    with (
        start_server(environment=environment) as server,
        held(server, watches(WATCHES), True),
        held(server, streams, True),
        held(server, queued, False),
    ):
        # Until all are in the queue; one more would take the place of one of them.
        time.sleep(1.5)
        assert post_chat(server, say("words 1", model="m0")).status == 429
        assert_answered(server)
