"""`POST /admin/models/load` and `/unload` over a live server with scripted models: what the bodies
mean, and one test for each error row (reference, there)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.process import Server, start_server
from tests.server.wire import (
    Answer,
    connect,
    events_of,
    get,
    parse_answer,
    post,
    post_chat,
    read_all,
    say,
    stream_request,
)

pytestmark = pytest.mark.server

LOAD, UNLOAD = "/admin/models/load", "/admin/models/unload"
INVALID = "invalid_request_error"


@pytest.fixture
def served() -> Iterator[Server]:
    """One model, with room for one more."""
    with start_server(environment={"PANTHEON_MAX_MODELS": "2"}) as started:
        yield started


@pytest.fixture(scope="module")
def refusing() -> Iterator[Server]:
    """One model and room for no other, shared by what changes nothing."""
    with start_server(environment={"PANTHEON_MAX_MODELS": "1"}) as started:
        yield started


@pytest.fixture
def model_file(tmp_path: Path) -> str:
    path = tmp_path / "small.gguf"
    path.touch()
    return str(path)


def assert_refused(answer: Answer, status: int, kind: str) -> str:
    assert (answer.status, answer.error_type()) == (status, kind), answer.body
    assert answer.header("access-control-allow-origin") == ["*"]
    assert answer.header("connection") == ["close"]
    return str(answer.json()["error"]["message"])


def names(server: Server) -> list[str]:
    return [row["id"] for row in get(server, "/admin/models").json()["data"]]


def test_loaded_model_is_served_and_its_row_answered(served: Server, model_file: str) -> None:
    body = {"path": model_file, "max_sessions": 4, "max_concurrent": 2, "ctx_cap": 32768}
    answer = post(served, LOAD, body | {"reasoning_budget": 1024, "quantize": False, "dies": []})
    assert answer.status == 200
    assert answer.header("access-control-allow-origin") == ["*"]
    row = answer.json()
    assert row == get(served, "/admin/models").json()["data"][-1]
    assert (row["id"], row["path"]) == ("small", model_file)
    assert (row["max_sessions"], row["max_concurrent"]) == (4, 2)
    assert (row["context_window"], row["context_window_configured"]) == (4096, 32768)
    assert names(served) == ["scripted", "small"]
    assert post_chat(served, say("hi", model="small")).json()["model"] == "small"
    assert post_chat(served, say("hi", model="other")).status == 404
    assert post(served, UNLOAD, {"name": "small"}).json() == {"unloaded": "small"}
    assert post_chat(served, say("hi", model="other")).json()["model"] == "scripted"


def test_null_zero_and_empty_are_the_defaults(served: Server, model_file: str) -> None:
    null = dict.fromkeys(["name", "dies", "quantize", "ctx_cap", "max_sessions", "max_concurrent"])
    default = post(served, LOAD, {"path": model_file}).json()
    for fields in (null, {"ctx_cap": 0, "max_sessions": 0, "max_concurrent": 0, "name": ""}):
        assert post(served, UNLOAD, {"name": "small"}).status == 200
        assert post(served, LOAD, {"path": model_file, **fields}).json() == default


def test_status_when_the_row_is_gone(served: Server, model_file: str) -> None:
    answer = post(served, LOAD, {"path": model_file, "name": "gone"})
    assert (answer.status, answer.body) == (200, b'{"status":"loaded"}')
    assert names(served) == ["scripted"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "empty"),
        (b"{", "malformed"),
        (b"[]", "object"),
        ({}, "path"),
        ({"path": None}, "path"),
        ({"path": ""}, "path"),
        ({"path": 7}, "path"),
        ({"path": "m", "dies": list(range(9))}, "dies"),
        ({"path": "m", "dies": ["0"]}, "dies"),
        ({"path": "m", "dies": [-1]}, "dies"),
        ({"path": "m", "dies": 0}, "dies"),
        ({"path": "m", "name": 7}, "name"),
        ({"path": "m", "name": "x" * 513}, "name"),
        ({"path": "m", "quantize": "yes"}, "quantize"),
        ({"path": "m", "ctx_cap": "32k"}, "ctx_cap"),
        ({"path": "m", "ctx_cap": -1}, "ctx_cap"),
        ({"path": "m", "ctx_cap": 1.5}, "ctx_cap"),
        ({"path": "m", "max_sessions": -1}, "max_sessions"),
        ({"path": "m", "max_concurrent": True}, "max_concurrent"),
        ({"path": "m", "reasoning_budget": -1}, "reasoning_budget"),
    ],
)
def test_load_400_invalid_request_error(refusing: Server, body: Any, field: str) -> None:
    assert field in assert_refused(post(refusing, LOAD, body), 400, INVALID)


def test_load_400_load_failed(refusing: Server, model_file: str) -> None:
    """`dies` named on a server with no accelerator."""
    body = {"path": model_file, "dies": [0]}
    assert_refused(post(refusing, LOAD, body), 400, "load_failed")


def test_load_409_load_failed(refusing: Server, model_file: str) -> None:
    body = {"path": model_file, "name": "scripted"}
    assert_refused(post(refusing, LOAD, body), 409, "load_failed")


def test_load_507_load_failed(refusing: Server, model_file: str) -> None:
    """The registry is full."""
    assert_refused(post(refusing, LOAD, {"path": model_file}), 507, "load_failed")


@pytest.mark.parametrize(
    "path", ["/nope/m.gguf", "m\0.gguf", "../../nope", "x" * 10_000, "~", "http://a/b.gguf", "/"]
)
def test_load_404_load_failed(refusing: Server, path: str) -> None:
    assert_refused(post(refusing, LOAD, {"path": path}), 404, "load_failed")


def test_load_500_load_failed(refusing: Server, tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("secret")
    message = assert_refused(post(refusing, LOAD, {"path": str(path)}), 500, "load_failed")
    assert "secret" not in message


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", {}, {"name": None}, {"name": ""}, {"name": 7}, {"name": ["m"]}]
)
def test_unload_400_invalid_request_error(refusing: Server, body: Any) -> None:
    assert_refused(post(refusing, UNLOAD, body), 400, INVALID)


def test_unload_404_unload_failed(refusing: Server) -> None:
    for name in ("nope", "Scripted", "scripted ", "\0", "x" * 10_000):
        assert_refused(post(refusing, UNLOAD, {"name": name}), 404, "unload_failed")


def test_unload_500_unload_failed(refusing: Server) -> None:
    assert_refused(post(refusing, UNLOAD, {"name": "stuck"}), 500, "unload_failed")


def test_unload_409_unload_failed_while_a_stream_runs_on(served: Server) -> None:
    """What runs ends as if nothing was; new chats and a second unload are refused at once."""
    answers: list[Answer] = []

    def unload() -> None:
        answers.append(post(served, UNLOAD, {"name": "scripted"}, timeout=30))

    with connect(served, timeout=30) as running:
        running.sendall(stream_request("slow 100", max_tokens=15))
        head = running.recv(65536)
        assert b"200 OK" in head
        unloading = threading.Thread(target=unload)
        unloading.start()
        deadline = time.monotonic() + 5
        while names(served):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        answer = post(served, UNLOAD, {"name": "scripted"})
        assert_refused(answer, 409, "unload_failed")
        assert post_chat(served, say("hi")).error_type() == "no_models_loaded"
        events = events_of(parse_answer(head + read_all(running)).body)
        unloading.join(30)
    assert sum('"content"' in event for event in events) == 15
    assert events[-1] == "[DONE]"
    assert answers[0].json() == {"unloaded": "scripted"}
    assert_refused(post(served, UNLOAD, {"name": "scripted"}), 404, "unload_failed")
