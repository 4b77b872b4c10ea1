"""One test for each error row of `POST /v1/chat/completions`, named after its type.

The rows of sessions, memory and shutdown are tested with those features.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from tests.server.process import Server, start_server
from tests.server.wire import Answer, connect, events_of, post_chat, say, stream_request

pytestmark = pytest.mark.server

LONG = " ".join(["word"] * 5000)
"""One more token, its turn's, than 5000; the window has 4096."""

both_modes = pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])


@pytest.fixture(scope="module")
def one_row() -> Iterator[Server]:
    """One request at once and no queue: the next one finds every slot busy."""
    with start_server(environment={"SCRIPTED_ROWS": "1", "BS_QUEUE_DEPTH": "0"}) as started:
        yield started


def assert_refused(answer: Answer, status: int, kind: str) -> str:
    assert (answer.status, answer.error_type()) == (status, kind)
    assert answer.header("access-control-allow-origin") == ["*"]
    assert answer.header("connection") == ["close"]
    return str(answer.json()["error"]["message"])


@both_modes
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"x"',
        b"null",
        b"{}",
        b'{"messages":[]}',
        b'{"messages":{}}',
    ],
)
def test_400_invalid_request_error(server: Server, body: bytes, stream: bool) -> None:
    """Empty body, malformed JSON, body not an object, `messages` missing or empty."""
    if stream and body.startswith(b'{"'):
        body = body[:-1] + b',"stream":true}'
    assert assert_refused(post_chat(server, body), 400, "invalid_request_error")


@both_modes
def test_404_model_not_found(stream: bool) -> None:
    """Several models loaded and `model` matches none."""
    with start_server(environment={"SCRIPTED_MODELS": "a,b"}) as server:
        answer = post_chat(server, say("x", model="c", stream=stream))
        assert "'c'" in assert_refused(answer, 404, "model_not_found")


def test_422_context_over_budget(server: Server) -> None:
    """Not streaming, `kv_used` and `kv_cap` are in the message's text."""
    message = assert_refused(post_chat(server, say(LONG)), 422, "context_over_budget")
    assert "kv_used=5001" in message and "kv_cap=4096" in message


def test_422_context_over_budget_while_streaming(server: Server) -> None:
    """Streaming, they are fields of the terminal event's error object."""
    answer = post_chat(server, say(LONG, stream=True, n=3))
    assert answer.status == 200
    (event,) = events_of(answer.body)
    error = json.loads(event)["error"]
    assert error.pop("message")
    expected = {"type": "context_over_budget", "code": None, "kv_used": 5001, "kv_cap": 4096}
    assert error == expected


@both_modes
def test_429_server_busy(one_row: Server, stream: bool) -> None:
    """All slots busy and the queue full; `Retry-After` when the scheduler supplies one."""
    with connect(one_row) as running:
        running.sendall(stream_request("slow 200", max_tokens=1000))
        assert b"200 OK" in running.recv(65536)
        answer = post_chat(one_row, say("x", stream=stream))
        assert_refused(answer, 429, "server_busy")
        assert answer.header("retry-after") == ["1"]
    # The row is free again for whoever comes next.
    deadline = time.monotonic() + 5
    while post_chat(one_row, say("x")).status != 200:
        assert time.monotonic() < deadline
        time.sleep(0.02)


@both_modes
def test_503_no_models_loaded(stream: bool) -> None:
    with start_server(environment={"SCRIPTED_MODELS": ","}) as server:
        answer = post_chat(server, say("x", stream=stream))
        assert_refused(answer, 503, "no_models_loaded")


def test_500_server_error(server: Server) -> None:
    """Generation failed; the answer says nothing of its cause."""
    message = assert_refused(post_chat(server, say("fail 1")), 500, "server_error")
    assert message == "the generation failed"
    assert_refused(post_chat(server, say("defect")), 500, "server_error")
