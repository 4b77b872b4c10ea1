"""Routing and the single-user path over tiny real models."""

from __future__ import annotations

import json
import time

import pytest

from tests.server.models import TINY, serve_tiny
from tests.server.process import Server
from tests.server.wire import CHAT, connect, get, post_chat, request_bytes

pytestmark = [pytest.mark.server, pytest.mark.timeout(900)]

_LONG = {
    "messages": [{"role": "user", "content": "go on"}],
    "max_tokens": 100_000,
    "temperature": 0,
}


def _body(**fields: object) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": "a"}], "max_tokens": 2, **fields}


def _wait_for_status(server: Server, status: int, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while (found := post_chat(server, _body()).status) != status:
        assert time.monotonic() < deadline, f"still {found} instead of {status}"
        time.sleep(0.05)


def test_one_model_takes_every_name_and_several_only_their_own() -> None:
    """Reference, `model`: routing key; unknown with several models is 404."""
    with serve_tiny(",ctx_cap=256,max_sessions=1", count=2) as server:
        listed = get(server, "/v1/models").json()["data"]
        assert [row["id"] for row in listed] == list(TINY)
        for name in TINY:
            answer = post_chat(server, _body(model=name))
            assert (answer.status, answer.json()["model"]) == (200, name)
        for body in (_body(model="unknown"), _body(), _body(model=None)):
            answer = post_chat(server, body)
            assert (answer.status, answer.error_type()) == (404, "model_not_found")


def test_the_single_user_path_refuses_a_second_request_at_once() -> None:
    """Reference, legacy path: immediate 429, `max_concurrent` 1, and the row is freed when the
    client leaves."""
    with serve_tiny("", QWEN35_BATCH_SLOTS="0") as server:
        (row,) = get(server, "/admin/models").json()["data"]
        assert (row["max_concurrent"], row["max_concurrent_configured"]) == (1, 8)
        assert post_chat(server, _body(model="anything")).status == 200
        with connect(server) as sock:
            body = json.dumps({**_LONG, "stream": True}).encode()
            sock.sendall(request_bytes("POST", CHAT, body))
            assert b"200 OK" in sock.recv(65536)
            answer = post_chat(server, _body())
            assert (answer.status, answer.error_type()) == (429, "server_busy")
            assert answer.header("retry-after")
        _wait_for_status(server, 200, seconds=10)
