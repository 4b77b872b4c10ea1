"""One test for each error row of the session routes, named after its route, status and type.

Reference, session routes, over a live server. 503 `server_shutting_down` is an addition.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.process import Server, start_server
from tests.server.wire import (
    Answer,
    connect,
    exchange,
    get,
    post,
    post_chat,
    request_bytes,
    say,
    stream_request,
)

pytestmark = pytest.mark.server

EXPORT, RESTORE, RELEASE = "/admin/session/export", "/session/restore", "/session/release"
WATCH, ESTIMATE = "/session/watch", "/session/estimate"
INVALID = "invalid_request_error"


@pytest.fixture(scope="module")
def models() -> Iterator[Server]:
    """The default model, one without snapshots, one without sessions; two sessions, one watch."""
    environment = {
        "SCRIPTED_MODELS": "main,unsnapshotted,uncached",
        "SCRIPTED_WITHOUT_SNAPSHOTS": "unsnapshotted",
        "SCRIPTED_WITHOUT_SESSIONS": "uncached",
        "SCRIPTED_ROWS": "2",
        "PANTHEON_MAX_WATCHES": "1",
    }
    with start_server(environment=environment) as started:
        yield started


@pytest.fixture(scope="module")
def exported(models: Server) -> dict[str, Any]:
    """The body that restores a session of two words."""
    assert post_chat(models, say("hello there", model="main", session_id="s")).status == 200
    answer = post(models, EXPORT, {"session_id": "s"}).json()
    assert post(models, RELEASE, {"session_id": "s"}).status == 200
    return {"session_id": "s", "blob": answer["blob_b64"], "tokens": answer["tokens"]}


def assert_refused(answer: Answer, status: int, kind: str) -> str:
    assert (answer.status, answer.error_type()) == (status, kind), answer.body
    assert answer.header("access-control-allow-origin") == ["*"]
    assert answer.header("connection") == ["close"]
    assert answer.header("content-type") == ["application/json"]
    return str(answer.json()["error"]["message"])


BAD_BODIES = [b"", b" ", b"{", b"[]", b'"x"', b"null", b"\xff"]


@pytest.mark.parametrize("path", [EXPORT, RESTORE, RELEASE])
@pytest.mark.parametrize("body", BAD_BODIES)
def test_400_invalid_request_error_malformed(models: Server, path: str, body: bytes) -> None:
    assert_refused(post(models, path, body, "X-Session-Id: s"), 400, INVALID)


@pytest.mark.parametrize("session_id", [None, "", 7, ["s"]])
def test_export_400_invalid_request_error(models: Server, session_id: object) -> None:
    """The body alone names the session of an export."""
    body = {} if session_id is None else {"session_id": session_id}
    message = assert_refused(post(models, EXPORT, body, "X-Session-Id: s"), 400, INVALID)
    assert "session_id" in message


def test_export_400_session_export_unsupported(models: Server) -> None:
    body = {"name": "unsnapshotted", "session_id": "s"}
    assert_refused(post(models, EXPORT, body), 400, "session_export_unsupported")


def test_export_400_session_caching_disabled(models: Server) -> None:
    body = {"name": "uncached", "session_id": "s"}
    assert_refused(post(models, EXPORT, body), 400, "session_caching_disabled")


def test_export_404_session_not_found(models: Server) -> None:
    body = {"session_id": "nobody"}
    assert_refused(post(models, EXPORT, body), 404, "session_not_found")


def test_export_429_session_busy(models: Server) -> None:
    with connect(models) as running:
        running.sendall(stream_request("slow 100", model="main", session_id="busy", max_tokens=50))
        assert b"200 OK" in running.recv(65536)
        answer = post(models, EXPORT, {"session_id": "busy"})
        assert_refused(answer, 429, "session_busy")
    _until_free(models, "busy")


def _until_free(server: Server, session_id: str) -> None:
    """A client that left has left its session within a moment."""
    deadline = time.monotonic() + 5
    while post(server, EXPORT, {"session_id": session_id}).status == 429:
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("path", [EXPORT, RESTORE])
def test_500_server_error(models: Server, exported: dict[str, Any], path: str) -> None:
    """The answer says nothing of the cause."""
    answer = post(models, path, exported | {"session_id": "defect"})
    assert "secret" not in assert_refused(answer, 500, "server_error")


@pytest.mark.parametrize("path", [EXPORT, RESTORE, RELEASE])
def test_404_model_not_found(models: Server, exported: dict[str, Any], path: str) -> None:
    answer = post(models, path, exported | {"name": "nope"})
    assert "nope" in assert_refused(answer, 404, "model_not_found")


@pytest.mark.parametrize("field", ["session_id", "blob", "tokens"])
@pytest.mark.parametrize("value", [None, "absent"])
def test_restore_400_invalid_request_error_missing(
    models: Server, exported: dict[str, Any], field: str, value: object
) -> None:
    body = {name: item for name, item in exported.items() if name != field}
    if value is None:
        body[field] = None
    assert field in assert_refused(post(models, RESTORE, body), 400, INVALID)


@pytest.mark.parametrize(
    ("field", "value"),
    [("blob", 7), ("blob", []), ("tokens", "1"), ("tokens", [1.5]), ("tokens", ["1"]),
     ("tokens", [None]), ("tokens", [True]), ("tokens", [[1]]), ("name", 7)],
)  # fmt: skip
def test_restore_400_invalid_request_error_type(
    models: Server, exported: dict[str, Any], field: str, value: object
) -> None:
    answer = post(models, RESTORE, exported | {field: value})
    assert field in assert_refused(answer, 400, INVALID)


def test_restore_400_session_caching_disabled(models: Server, exported: dict[str, Any]) -> None:
    answer = post(models, RESTORE, exported | {"name": "uncached"})
    assert_refused(answer, 400, "session_caching_disabled")


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body | {"blob": ""},
        lambda body: body | {"blob": "?" + body["blob"]},
        lambda body: body | {"blob": body["blob"] + "\n"},
        lambda body: body | {"blob": body["blob"][: len(body["blob"]) // 8 * 4]},
        lambda body: body | {"blob": "AAAA" + body["blob"][4:]},
        lambda body: body | {"tokens": [*body["tokens"], 1]},
        lambda body: body | {"tokens": [-5, *body["tokens"][1:]]},
        lambda body: body | {"tokens": [2**64, *body["tokens"][1:]]},
    ],
)
def test_restore_400_bad_session_blob(
    models: Server, exported: dict[str, Any], change: Any
) -> None:
    """Not base64, corrupt, of another format, or of other tokens."""
    assert_refused(post(models, RESTORE, change(exported)), 400, "bad_session_blob")


def test_restore_409_weights_version_mismatch(models: Server, exported: dict[str, Any]) -> None:
    answer = post(models, RESTORE, exported | {"name": "unsnapshotted"})
    assert_refused(answer, 409, "weights_version_mismatch")


def test_429_model_at_session_capacity(models: Server, exported: dict[str, Any]) -> None:
    """Of a restore and of a chat alike; `Retry-After: 30`. A release makes room."""
    for session_id in ("1", "2"):
        assert post(models, RESTORE, exported | {"session_id": session_id}).status == 200
    for answer in (
        post(models, RESTORE, exported | {"session_id": "3"}),
        post_chat(models, say("x", model="main", session_id="3")),
        post_chat(models, say("x", model="main", session_id="3", stream=True)),
    ):
        assert_refused(answer, 429, "model_at_session_capacity")
        assert answer.header("retry-after") == ["30"]
    assert post_chat(models, say("x", model="main")).status == 200
    assert post(models, RESTORE, exported | {"session_id": "2"}).status == 200
    for session_id in ("1", "2"):
        assert post(models, RELEASE, {"session_id": session_id}).status == 200
    assert post(models, RESTORE, exported | {"session_id": "3"}).status == 200
    assert post(models, RELEASE, {"session_id": "3"}).status == 200


def test_restore_413_over_its_own_limit(models: Server) -> None:
    """The limit is that of the largest session, which for this small model is the normal one."""
    head = request_bytes("POST", RESTORE, None, f"Content-Length: {16 * 2**20 + 1}")
    message = assert_refused(exchange(models, head), 413, INVALID)
    assert str(16 * 2**20) in message


def test_restore_takes_more_than_the_normal_limit() -> None:
    """As much as the largest session needs, however small the limit of other bodies is."""
    with start_server(environment={"PANTHEON_MAX_BODY_BYTES": "1000"}) as server:
        assert post_chat(server, say("a b c", session_id="s")).status == 200
        export = post(server, EXPORT, {"session_id": "s"}).json()
        body = {"session_id": "t", "blob": export["blob_b64"], "tokens": export["tokens"]}
        assert post(server, RESTORE, body | {"padding": "x" * 1_000_000}).status == 200
        for path in (EXPORT, RELEASE):
            answer = post(server, path, {"session_id": "t", "padding": "x" * 1000})
            assert_refused(answer, 413, INVALID)
        answer = post(server, RESTORE, body | {"padding": "x" * 9_000_000}, timeout=30)
        assert_refused(answer, 413, INVALID)


def test_503_server_shutting_down(exported: dict[str, Any]) -> None:
    """What would begin anew is refused while a stream runs on; the others answer as ever."""
    with start_server() as server, connect(server, timeout=20) as running:
        running.sendall(stream_request("slow 100", max_tokens=30))
        assert b"200 OK" in running.recv(65536)
        os.kill(server.pid, signal.SIGTERM)
        while post_chat(server, say("x")).status != 503:
            time.sleep(0.02)
        for answer in (
            post(server, EXPORT, exported),
            post(server, RESTORE, exported),
            post(server, "/admin/models/load", {"path": "m.gguf"}),
            get(server, f"{WATCH}?session_id=s"),
        ):
            assert_refused(answer, 503, "server_shutting_down")
            assert answer.header("retry-after") == ["1"]
        assert get(server, f"{ESTIMATE}?tokens=1").status == 200
        assert post(server, RELEASE, {"session_id": "s"}).status == 200


@pytest.mark.parametrize("header", [[], ["X-Session-Id:"]])
def test_release_400_invalid_request_error(models: Server, header: list[str]) -> None:
    for body in ({}, {"session_id": ""}, {"session_id": None}):
        assert "session_id" in assert_refused(post(models, RELEASE, body, *header), 400, INVALID)


@pytest.mark.parametrize(
    "query",
    ["", "tokens=", "tokens=0", "tokens=-1", "tokens=abc", "tokens=1e3", "tokens=NaN",
     "tokens=1.0", "tokens=5&tokens=0", "name=main", "tokens=" + "9" * 309],
)  # fmt: skip
def test_estimate_400_invalid_request_error(models: Server, query: str) -> None:
    assert "tokens" in assert_refused(get(models, f"{ESTIMATE}?{query}"), 400, INVALID)


@pytest.mark.parametrize("query", ["", "session_id=", "name=main"])
def test_watch_400_invalid_request_error(models: Server, query: str) -> None:
    assert "session_id" in assert_refused(get(models, f"{WATCH}?{query}"), 400, INVALID)


def test_watch_400_session_caching_disabled(models: Server) -> None:
    answer = get(models, f"{WATCH}?session_id=s&name=uncached")
    assert_refused(answer, 400, "session_caching_disabled")


def test_watch_404_model_not_found(models: Server) -> None:
    assert_refused(get(models, f"{WATCH}?session_id=s&name=nope"), 404, "model_not_found")


def test_watch_503_watch_unavailable(models: Server) -> None:
    """Its table is full; as soon as a watch is closed there is room again."""
    with connect(models) as held:
        held.sendall(request_bytes("GET", f"{WATCH}?session_id=s"))
        assert b"watch established" in _read_until(held, b"established")
        assert_refused(get(models, f"{WATCH}?session_id=t"), 503, "watch_unavailable")
    deadline = time.monotonic() + 5
    while True:
        with connect(models) as again:
            again.sendall(request_bytes("GET", f"{WATCH}?session_id=t"))
            if b"200 OK" in again.recv(65536):
                return
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _read_until(sock: Any, mark: bytes) -> bytes:
    data = b""
    while mark not in data:
        part = sock.recv(65536)
        assert part, data
        data += part
    return data


@pytest.mark.parametrize("path", [EXPORT, RESTORE, RELEASE])
def test_400_session_id_too_long(models: Server, exported: dict[str, Any], path: str) -> None:
    """An id is kept as long as its session: at most 512 characters, wherever it stands."""
    assert post(models, path, exported | {"session_id": "x" * 512}).status in (200, 404)
    assert post(models, RELEASE, {"session_id": "x" * 512}).status == 200
    answer = post(models, path, exported | {"session_id": "x" * 513})
    assert "session_id" in assert_refused(answer, 400, INVALID)


def test_400_session_id_too_long_elsewhere(models: Server) -> None:
    long = "x" * 513
    for name in ("session_id", "prompt_cache_key", "promptCacheKey"):
        answer = post_chat(models, say("x", model="main", **{name: long}))
        assert name in assert_refused(answer, 400, INVALID)
    for answer in (
        post_chat(models, say("x", model="main"), f"X-Session-Id: {long}"),
        post(models, RELEASE, {}, f"X-Session-Id: {long}"),
    ):
        assert "X-Session-Id" in assert_refused(answer, 400, INVALID)
    answer = get(models, f"{WATCH}?session_id={long}")
    assert "session_id" in assert_refused(answer, 400, INVALID)


def test_no_model_is_loaded() -> None:
    """There is no default model then: 404 as for any other unknown one."""
    with start_server(environment={"SCRIPTED_MODELS": ","}) as server:
        body = {"session_id": "s", "blob": "AAAA", "tokens": [1]}
        for path in (EXPORT, RESTORE, RELEASE):
            assert_refused(post(server, path, body), 404, "model_not_found")
        assert_refused(get(server, f"{WATCH}?session_id=s"), 404, "model_not_found")
        estimate = get(server, f"{ESTIMATE}?tokens=1")
        assert (estimate.status, estimate.json()["model"]) == (200, "")


def test_sessions_can_be_switched_off() -> None:
    """PANTHEON_SESSION_CACHE=0: no model has a session cache; chats are served as ever."""
    with start_server(environment={"PANTHEON_SESSION_CACHE": "0"}) as server:
        for _ in range(2):
            usage = post_chat(server, say("a b c", session_id="s")).json()["usage"]
            assert usage["prompt_tokens_details"] == {"cached_tokens": 0}
        body = {"session_id": "s", "blob": "AAAA", "tokens": [1]}
        for path in (EXPORT, RESTORE):
            assert_refused(post(server, path, body), 400, "session_caching_disabled")
        assert_refused(get(server, f"{WATCH}?session_id=s"), 400, "session_caching_disabled")
        assert post(server, RELEASE, body).json() == {"released": True, "session_id": "s"}


def test_hostile_ids_are_only_names(models: Server) -> None:
    for session_id in ("\0", "\r\nSet-Cookie: a=b", "../../etc/passwd", "\x1b[2J", '"}', "é\u2028"):
        answer = post(models, RELEASE, {"session_id": session_id})
        assert answer.json() == {"released": True, "session_id": session_id}
        assert answer.header("set-cookie") == []
        answer = post(models, EXPORT, {"session_id": session_id})
        assert_refused(answer, 404, "session_not_found")
    log = models.log.read_text("utf-8", "replace")
    assert "\x1b[2J" not in log and "\nSet-Cookie" not in log


def test_many_tokens_are_refused_in_time(models: Server) -> None:
    """A history of 262144 tokens, the largest window, in a body near the limit."""
    body = {"session_id": "s", "blob": "A" * 12_000_000, "tokens": list(range(262_144))}
    started = time.monotonic()
    answer = post(models, RESTORE, body, timeout=30)
    assert_refused(answer, 400, "bad_session_blob")
    assert time.monotonic() - started < 10
    with contextlib.suppress(json.JSONDecodeError):
        assert len(answer.body) < 1000
