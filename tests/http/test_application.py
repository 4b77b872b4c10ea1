"""The WSGI application without a server."""

from __future__ import annotations

import base64
import tracemalloc
from typing import Any

import falcon.testing
import pytest

from pantheon.engine.testing import ScriptedEngine
from pantheon.generated.operations import RestoreSessionRequest, RestoreSessionResponse
from pantheon.handlers.operations import EngineOperations
from pantheon.http.application import wsgi_application
from pantheon.http.envelope import Envelope


@pytest.fixture
def client() -> falcon.testing.TestClient:
    application: Any = wsgi_application(EngineOperations(ScriptedEngine()), 10_000)
    return falcon.testing.TestClient(application)


def test_defect_outside_the_routes_is_the_error_shape(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_environ: Any, _start: Any) -> Any:
        raise RuntimeError("secret")

    application: Any = Envelope(broken)
    answer = falcon.testing.TestClient(application).simulate_get("/")
    assert answer.status_code == 500
    assert answer.json["error"]["type"] == "server_error"
    assert "secret" not in answer.text
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "secret" in caplog.text


def test_common_header_is_not_doubled() -> None:
    def inner(_environ: Any, start: Any) -> Any:
        start("200 OK", [("access-control-allow-origin", "http://only.here"), ("X", "y")])
        return [b""]

    seen: list[tuple[str, str]] = []

    def start(_status: str, headers: list[tuple[str, str]]) -> None:
        seen.extend(headers)

    Envelope(inner)({"REQUEST_METHOD": "GET"}, start)
    assert seen == [("X", "y"), ("Access-Control-Allow-Origin", "*")]


def test_client_without_a_socket_is_never_gone(client: falcon.testing.TestClient) -> None:
    body = {"messages": [{"content": "hello"}]}
    answer = client.simulate_post("/v1/chat/completions", json=body)
    assert answer.json["choices"][0]["message"]["content"] == "hello"


def test_body_over_the_limit_is_413(client: falcon.testing.TestClient) -> None:
    answer = client.simulate_post("/v1/chat/completions", body="x" * 10_001)
    assert answer.status_code == 413


RESTORE = "/session/restore"


def test_operation_may_take_more_than_the_limit() -> None:
    """A body of a restore is as large as the largest session needs; never less than the limit."""

    class Operations(EngineOperations):
        def restore_session_body_limit(self) -> int:
            return own_limit

    def statuses(*sizes: int) -> list[int]:
        application: Any = wsgi_application(Operations(ScriptedEngine()), 10_000)
        client = falcon.testing.TestClient(application)
        return [client.simulate_post(RESTORE, body=" " * size).status_code for size in sizes]

    own_limit = 50_000
    assert statuses(50_000, 50_001) == [400, 413]
    own_limit = 100
    assert statuses(10_000, 10_001) == [400, 413]


def test_refusal_says_where_its_limit_comes_from(client: falcon.testing.TestClient) -> None:
    answer = client.simulate_post("/session/release", body="x" * 10_001)
    assert "10000 bytes (PANTHEON_MAX_BODY_BYTES)" in answer.json["error"]["message"]
    answer = client.simulate_post(RESTORE, body="x" * 9_000_000)
    assert "bytes (what the largest session needs)" in answer.json["error"]["message"]


def test_body_of_a_restore_is_not_held_longer_than_needed() -> None:
    """At the peak there are two copies of it, raw and as text, or as text and as its value."""
    blob = base64.b64encode(bytes(24 * 2**20))
    body = b'{"session_id":"s","tokens":[1],"blob":"' + blob + b'"}'
    at_call: list[int] = []

    class Operations(EngineOperations):
        def restore_session_body_limit(self) -> int:
            return len(body)

        def restore_session(self, request: RestoreSessionRequest) -> RestoreSessionResponse:
            at_call.append(tracemalloc.get_traced_memory()[0])
            return super().restore_session(request)

    application: Any = wsgi_application(Operations(ScriptedEngine()), 10_000)
    client = falcon.testing.TestClient(application)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        assert client.simulate_post(RESTORE, body=body).json["error"]["type"] == "bad_session_blob"
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The test client holds one copy of its own, which the socket of a real server does not.
    assert peak - before < 3.3 * len(body)
    assert at_call[0] - before < 2.1 * len(body)
