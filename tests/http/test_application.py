"""The WSGI application without a server."""

from __future__ import annotations

from typing import Any

import falcon.testing
import pytest

from pantheon.engine.testing import ScriptedEngine
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
