"""A client that leaves frees its row, over a real model (reference, streaming response)."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.models import serve_smollm2
from tests.server.process import Server
from tests.server.wire import CHAT, connect, post_chat, request_bytes

pytestmark = [pytest.mark.server, pytest.mark.timeout(900)]

_SHORT = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
_DECODE_S = 20.0
"""At least this long the answer below decodes: 700 tokens, over 25 ms each."""


@pytest.fixture(scope="module")
def no_queue() -> Iterator[Server]:
    """Two rows and no queue: a third request is refused at once."""
    with serve_smollm2(BS_QUEUE_DEPTH="0") as started:
        yield started


def _hold_a_row(
    server: Server, stack: contextlib.ExitStack, content: str, stream: bool
) -> socket.socket:
    """Send a request that is not refused; a row of the test before may take a step to be free."""
    messages = [{"role": "user", "content": content}]
    body: dict[str, Any] = {"messages": messages, "max_tokens": 900, "stream": stream}
    data = request_bytes("POST", CHAT, json.dumps({**body, "temperature": 0}).encode())
    for _ in range(20):
        sock = stack.enter_context(connect(server, timeout=0.5))
        sock.sendall(data)
        try:
            if b"200 OK" in sock.recv(65536):
                return sock
        except TimeoutError:
            # No answer yet: it is being prefilled or decoded.
            return sock
    raise AssertionError("no row became free")


def _seconds_until(server: Server, status: int, limit: float) -> float:
    began = time.monotonic()
    while (found := post_chat(server, _SHORT, timeout=60).status) != status:
        assert time.monotonic() - began < limit, f"still {found} instead of {status}"
        time.sleep(0.02)
    return time.monotonic() - began


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "json"])
@pytest.mark.parametrize(
    "content", ["Write a very long story about a river.", "word " * 900], ids=["decode", "prefill"]
)
def test_a_client_that_leaves_frees_its_row(no_queue: Server, content: str, stream: bool) -> None:
    """Both rows are held by answers that take much longer than the test waits for a free one."""
    with contextlib.ExitStack() as stack:
        _hold_a_row(no_queue, stack, "Write a very long story about the sea.", True)
        leaving = _hold_a_row(no_queue, stack, content, stream)
        _seconds_until(no_queue, 429, limit=10)
        leaving.close()
        assert _seconds_until(no_queue, 200, limit=10) < _DECODE_S / 2
    _seconds_until(no_queue, 200, limit=10)
