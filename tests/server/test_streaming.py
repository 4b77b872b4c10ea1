"""Server-sent events over a real connection (reference, streaming response)."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import time
from collections.abc import Iterator

import pytest

from tests.server.process import Server, start_server
from tests.server.wire import (
    CHAT,
    connect,
    events_of,
    exchange,
    get,
    post_chat,
    read_all,
    request_bytes,
    say,
    stream_request,
)

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def one_row() -> Iterator[Server]:
    """A server that decodes one request at once and queues none."""
    settings = {"SCRIPTED_ROWS": "1", "BS_QUEUE_DEPTH": "0"}
    with start_server(environment=settings) as started:
        yield started


def test_stream_is_framed_and_ordered_as_the_reference_lists(server: Server) -> None:
    answer = exchange(server, stream_request("words 3"))
    assert answer.header("content-type") == ["text/event-stream"]
    assert answer.header("content-length") == []
    *chunks, done = events_of(answer.body)
    assert done == "[DONE]"
    read = [json.loads(chunk) for chunk in chunks]
    assert [chunk["choices"][0]["delta"] for chunk in read] == [
        {"role": "assistant"},
        {"content": "w0"},
        {"content": " w1"},
        {"content": " w2"},
        {},
    ]
    assert [chunk["choices"][0]["finish_reason"] for chunk in read] == [None] * 4 + ["stop"]
    assert {chunk["object"] for chunk in read} == {"chat.completion.chunk"}
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in read}) == 1
    assert read[0]["id"].startswith("chatcmpl-")
    assert abs(read[0]["created"] - time.time()) < 60
    assert not any("usage" in chunk for chunk in read)


@pytest.mark.parametrize("options", [None, {}, {"include_usage": None}, {"include_usage": False}])
def test_no_usage_chunk_unless_it_is_asked_for(server: Server, options: object) -> None:
    answer = exchange(server, stream_request("words 1", stream_options=options))
    assert all('"usage"' not in event for event in events_of(answer.body))


def test_usage_chunk_is_the_last_before_done(server: Server) -> None:
    answer = exchange(server, stream_request("words 2", stream_options={"include_usage": True}))
    *_, closing, usage, done = events_of(answer.body)
    assert json.loads(closing)["choices"][0]["finish_reason"] == "stop"
    assert done == "[DONE]"
    assert json.loads(usage)["choices"] == []
    # Two words of the prompt and its turn; two words of the answer and its end.
    assert json.loads(usage)["usage"] == {
        "prompt_tokens": 3,
        "completion_tokens": 3,
        "total_tokens": 6,
        "prompt_tokens_details": {"cached_tokens": 0},
        "kv_used": 5,
        "kv_cap": 4096,
    }


def test_usage_chunk_asked_for_by_another_type_is_400(server: Server) -> None:
    answer = exchange(server, stream_request("words 1", stream_options={"include_usage": "yes"}))
    assert answer.status == 400
    assert "stream_options.include_usage" in answer.json()["error"]["message"]


def test_http_1_0_client_gets_a_stream_that_ends_with_the_connection(server: Server) -> None:
    data = stream_request("words 2").replace(b"HTTP/1.1", b"HTTP/1.0", 1)
    answer = exchange(server, data)
    assert answer.header("transfer-encoding") == []
    assert events_of(answer.body)[-1] == "[DONE]"


def test_over_budget_prompt_is_a_terminal_event(server: Server) -> None:
    """Reference, streaming response: status 200, one error event, no sentinel after it."""
    answer = exchange(server, stream_request("overflow"))
    assert answer.status == 200
    (event,) = events_of(answer.body)
    error = json.loads(event)["error"]
    assert error.pop("message")
    assert error == {
        "type": "context_over_budget",
        "code": None,
        "kv_used": 5000,
        "kv_cap": 4096,
    }


def test_overflow_has_the_words_that_agents_match_in_both_modes(server: Server) -> None:
    streamed = json.loads(events_of(exchange(server, stream_request("overflow")).body)[0])
    plain = post_chat(server, say("overflow")).json()
    assert streamed["error"]["message"] == plain["error"]["message"]
    assert "exceeds the available context size" in plain["error"]["message"]
    assert "maximum context length is 4096 tokens" in plain["error"]["message"]


def test_failure_closes_the_choice_with_stop(server: Server) -> None:
    """Reference: other generation failures close the choice with `finish_reason: "stop"`."""
    answer = exchange(server, stream_request("fail 1", stream_options={"include_usage": True}))
    assert answer.status == 200
    *_, word, closing, done = events_of(answer.body)
    assert json.loads(word)["choices"][0]["delta"] == {"content": "w0"}
    assert json.loads(closing)["choices"][0] == {"index": 0, "delta": {}, "finish_reason": "stop"}
    assert done == "[DONE]"


@pytest.mark.parametrize(
    ("script", "status"),
    [("refuse busy", 429), ("refuse unloaded", 503), ("refuse template", 400), ("defect", 500)],
)
def test_refusal_before_the_stream_keeps_its_status(
    server: Server, script: str, status: int
) -> None:
    answer = exchange(server, stream_request(script))
    assert answer.status == status
    answer.error_type()


def test_every_chunk_is_sent_when_it_is_made(server: Server) -> None:
    with connect(server) as sock:
        sock.sendall(stream_request("slow 150", max_tokens=6))
        arrivals = []
        while data := sock.recv(65536):
            arrivals.extend([time.monotonic()] * data.count(b'"content"'))
    assert len(arrivals) == 6
    assert arrivals[-1] - arrivals[0] > 0.5


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "json"])
@pytest.mark.parametrize("leave", ["close", "reset", "half"])
def test_client_that_leaves_frees_its_row(one_row: Server, leave: str, stream: bool) -> None:
    """Reference: a client that disconnects aborts the turn and frees its slot.

    The turn would take minutes; another client asks until the only row is free.
    """
    slow = say("slow 200", max_tokens=1000, stream=stream)
    with connect(one_row) as sock:
        sock.sendall(request_bytes("POST", CHAT, json.dumps(slow).encode()))
        _assert_holds_the_row(one_row, sock, stream)
        if leave == "reset":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if leave == "half":
            sock.shutdown(socket.SHUT_WR)
            _wait_for_status(one_row, 200)
    _wait_for_status(one_row, 200)


def test_client_with_bytes_behind_its_request_is_seen_leaving(one_row: Server) -> None:
    """Bytes that nobody will read must not hide the end of the connection behind them."""
    slow = json.dumps(say("slow 200", max_tokens=1000)).encode()
    with connect(one_row) as sock:
        sock.sendall(request_bytes("POST", CHAT, slow) + request_bytes("GET", "/"))
        _assert_holds_the_row(one_row, sock, stream=False)
    _wait_for_status(one_row, 200)


def test_bytes_behind_a_request_do_not_end_it(server: Server) -> None:
    with connect(server) as sock:
        sock.sendall(stream_request("slow 50", max_tokens=5) + request_bytes("GET", "/"))
        assert read_all(sock).endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")


def test_queued_client_that_leaves_is_forgotten() -> None:
    settings = {"SCRIPTED_ROWS": "1", "BS_QUEUE_DEPTH": "1"}
    with start_server(environment=settings) as server, contextlib.ExitStack() as stack:
        running = stack.enter_context(connect(server))
        running.sendall(stream_request("slow 200", max_tokens=1000))
        assert running.recv(65536)
        _enter_queue(server, stack).close()
        # Its place is free again for the next one, which then waits for the row.
        queued = _enter_queue(server, stack)
        running.close()
        queued.settimeout(10)
        assert read_all(queued).startswith(b"HTTP/1.1 200 OK")


def _enter_queue(server: Server, stack: contextlib.ExitStack) -> socket.socket:
    """A request that is neither answered nor refused: it waits in the queue."""
    body = json.dumps(say("words 1")).encode()
    for _ in range(20):
        sock = stack.enter_context(connect(server, timeout=0.3))
        sock.sendall(request_bytes("POST", CHAT, body))
        try:
            assert sock.recv(65536).startswith(b"HTTP/1.1 429 ")
            time.sleep(0.1)
        except TimeoutError:
            return sock
    raise AssertionError("the queue stayed full")


def test_wait_in_the_queue_runs_out_with_429_also_for_a_stream() -> None:
    settings = {"SCRIPTED_ROWS": "1", "PANTHEON_QUEUE_WAIT_MS": "300"}
    with start_server(environment=settings) as server, connect(server) as running:
        running.sendall(stream_request("slow 200", max_tokens=1000))
        assert running.recv(65536)
        answer = exchange(server, stream_request("words 1"))
        assert (answer.status, answer.error_type()) == (429, "server_busy")


def test_health_answers_while_all_rows_stream(one_row: Server) -> None:
    with connect(one_row) as sock:
        sock.sendall(stream_request("slow 100", max_tokens=1000))
        assert sock.recv(65536)
        started = time.monotonic()
        assert get(one_row, "/").status == 200
        assert time.monotonic() - started < 2
    _wait_for_status(one_row, 200)


def _assert_holds_the_row(server: Server, sock: socket.socket, stream: bool) -> None:
    """The request sent on `sock`, alone so far, is being served; another one then is refused."""
    if stream:
        assert b"200 OK" in sock.recv(65536)
    else:
        sock.settimeout(0.5)
        with pytest.raises(TimeoutError):
            sock.recv(65536)
    assert post_chat(server, say("words 1")).status == 429


def _wait_for_status(server: Server, status: int) -> None:
    """Ask for a completion until it is answered with `status`, for at most 5 s."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        if post_chat(server, say("words 1")).status == status:
            return
        time.sleep(0.02)
    raise AssertionError(f"no answer with status {status}")
