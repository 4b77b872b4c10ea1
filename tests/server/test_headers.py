"""What every response carries, whatever its class.

Reference: first paragraph (two headers on every response), Routes (unknown route), `OPTIONS *`.
"""

from __future__ import annotations

import pytest

from tests.server.process import Server
from tests.server.wire import CHAT, Answer, exchange, post_chat, request_bytes, say

pytestmark = pytest.mark.server

CASES = {
    "health": request_bytes("GET", "/"),
    "models": request_bytes("GET", "/v1/models"),
    "admin models": request_bytes("GET", "/admin/models"),
    "dies": request_bytes("GET", "/admin/dies"),
    "unknown path": request_bytes("GET", "/nope"),
    "unknown method": request_bytes("BREW", "/"),
    "head": request_bytes("HEAD", "/"),
    "head of nothing": request_bytes("HEAD", "/nope"),
    "options": request_bytes("OPTIONS", "/v1/models"),
    "options of everything": request_bytes("OPTIONS", "*"),
    "completion": request_bytes("POST", CHAT, b'{"messages":[{"content":"hi"}]}'),
    "stream": request_bytes("POST", CHAT, b'{"messages":[{"content":"hi"}],"stream":true}'),
    "bad request": request_bytes("POST", CHAT, b"{"),
    "failure": request_bytes("POST", CHAT, b'{"messages":[{"content":"fail 0"}]}'),
    "defect": request_bytes("POST", CHAT, b'{"messages":[{"content":"defect"}]}'),
    "busy": request_bytes("POST", CHAT, b'{"messages":[{"content":"refuse busy"}]}'),
    "load": request_bytes("POST", "/admin/models/load", b'{"path":"nope.gguf"}'),
    "unload": request_bytes("POST", "/admin/models/unload", b'{"name":"nope"}'),
    "export": request_bytes("POST", "/admin/session/export", b'{"session_id":"nobody"}'),
    "restore": request_bytes("POST", "/session/restore", b'{"blob":"AAAA","tokens":[1]}'),
    "release": request_bytes("POST", "/session/release", b'{"session_id":"nobody"}'),
    "estimate": request_bytes("GET", "/session/estimate?tokens=1"),
    "watch of nothing": request_bytes("GET", "/session/watch"),
    "HTTP/1.0": b"GET / HTTP/1.0\r\n\r\n",
    "keep-alive asked for": request_bytes("GET", "/", None, "Connection: keep-alive"),
    "not HTTP": b"?\r\n\r\n",
}


@pytest.mark.parametrize("data", CASES.values(), ids=CASES.keys())
def test_every_response_has_both_headers_once(server: Server, data: bytes) -> None:
    answer = exchange(server, data)
    assert answer.header("access-control-allow-origin") == ["*"]
    assert answer.header("connection") == ["close"]


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "BREW", "TRACE"])
@pytest.mark.parametrize("path", [CHAT, "/nope", "/v1/models/x", "/v1/models/", "//", "/%ff%00"])
def test_unknown_route_or_method_is_the_reference_404(
    server: Server, method: str, path: str
) -> None:
    answer = exchange(server, request_bytes(method, path))
    assert answer.status == 404
    assert answer.json() == {
        "error": {"message": "unknown route", "type": "not_found", "code": None}
    }


@pytest.mark.parametrize(
    "path",
    ["/", "/v1/models", "/admin/models", "/admin/dies", "/session/estimate?tokens=1",
     "/session/estimate", "/session/watch", "/session/release", "/nope", CHAT],
)  # fmt: skip
def test_head_is_get_without_a_body(server: Server, path: str) -> None:
    got = exchange(server, request_bytes("GET", path))
    head = exchange(server, request_bytes("HEAD", path))
    assert head.body == b""
    assert head.status == got.status
    assert head.header("content-length") == got.header("content-length")
    assert head.header("content-type") == got.header("content-type")


@pytest.mark.parametrize("path", ["/", CHAT, "/nope", "/a/b/c", "*"])
def test_options_answers_200_on_any_path(server: Server, path: str) -> None:
    answer = exchange(server, request_bytes("OPTIONS", path))
    assert (answer.status, answer.body) == (200, b"{}")


def test_preflight_allows_what_the_browser_asks(server: Server) -> None:
    """Browsers refuse to POST JSON without these (Fetch standard, CORS-preflight fetch)."""
    answer = exchange(
        server,
        request_bytes(
            "OPTIONS",
            CHAT,
            None,
            "Origin: http://localhost:5173",
            "Access-Control-Request-Method: POST",
            "Access-Control-Request-Headers: authorization,content-type,x-session-id",
        ),
    )
    assert answer.header("access-control-allow-headers") == [
        "authorization,content-type,x-session-id"
    ]
    assert "POST" in answer.header("access-control-allow-methods")[0]
    assert int(answer.header("access-control-max-age")[0]) > 0


def test_preflight_does_not_echo_what_is_no_header_list(server: Server) -> None:
    answer = exchange(
        server,
        request_bytes("OPTIONS", "/", None, 'Access-Control-Request-Headers: a\x80; b="c"'),
    )
    assert answer.status == 200
    assert "Content-Type" in answer.header("access-control-allow-headers")[0]


@pytest.mark.parametrize(
    ("script", "status", "kind", "retry_after"),
    [
        ("refuse template", 400, "invalid_request_error", []),
        ("overflow", 422, "context_over_budget", []),
        ("refuse busy", 429, "server_busy", ["7"]),
        ("refuse unloaded", 503, "no_models_loaded", []),
        ("refuse memory", 503, "server_memory_constrained", []),
        ("refuse shutdown", 503, "server_shutting_down", ["1"]),
        ("fail 2", 500, "server_error", []),
        ("defect", 500, "server_error", []),
    ],
)
def test_refusals_have_the_status_and_type_of_the_reference(
    server: Server, script: str, status: int, kind: str, retry_after: list[str]
) -> None:
    answer = post_chat(server, say(script))
    assert (answer.status, answer.error_type()) == (status, kind)
    assert answer.header("retry-after") == retry_after


def test_defect_shows_nothing_of_its_cause(server: Server) -> None:
    answer = post_chat(server, say("defect"))
    _assert_clean(answer)
    assert "a defect with a secret in it" in server.log.read_text()


def _assert_clean(answer: Answer) -> None:
    text = answer.body.decode()
    for trace in ("secret", "Traceback", "RuntimeError", ".py", "/"):
        assert trace not in text
