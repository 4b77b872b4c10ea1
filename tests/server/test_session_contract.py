"""What the session routes do when they do it (reference, session routes), over a live server."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.process import Server, start_server
from tests.server.wire import Answer, events_of, exchange, get, post, post_chat, request_bytes, say

pytestmark = pytest.mark.server

EXPORT, RESTORE, RELEASE = "/admin/session/export", "/session/restore", "/session/release"
ESTIMATE = "/session/estimate"


@pytest.fixture(scope="module")
def two() -> Iterator[Server]:
    """Two models, the first of which is the default one."""
    with start_server(environment={"SCRIPTED_MODELS": "first,second"}) as started:
        yield started


def chat(server: Server, *texts: str, **fields: Any) -> Any:
    """A chat whose messages are `texts` by turns of user and assistant."""
    roles = itertools.cycle(("user", "assistant"))
    messages = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]
    answer = post_chat(server, {"messages": messages, "model": "first", **fields})
    assert answer.status == 200, answer.body
    return answer.json()


def cached(body: Any) -> int:
    return int(body["usage"]["prompt_tokens_details"]["cached_tokens"])


def assert_common_headers(answer: Answer) -> None:
    assert answer.header("access-control-allow-origin") == ["*"]
    assert answer.header("connection") == ["close"]


def test_export_and_restore_into_another_process(two: Server) -> None:
    """The next turn there resumes from the whole history, and answers as it would have here."""
    chat(two, "a b c", session_id="s")
    answer = post(two, EXPORT, {"name": "first", "session_id": "s"})
    assert answer.status == 200
    assert_common_headers(answer)
    assert answer.header("content-type") == ["application/json"]
    assert answer.header("content-length") == [str(len(answer.body))]
    assert answer.header("transfer-encoding") == []
    export = answer.json()
    assert list(export) == [
        "session_id", "weights_version", "n_tok", "blob_bytes", "blob_b64", "tokens",
    ]  # fmt: skip
    assert export["session_id"] == "s"
    assert export["n_tok"] == len(export["tokens"]) == 7
    assert export["blob_bytes"] == len(base64.b64decode(export["blob_b64"], validate=True))
    assert 0 <= export["weights_version"] < 2**53
    restore = {"session_id": "t", "blob": export["blob_b64"], "tokens": export["tokens"]}
    with start_server(environment={"SCRIPTED_MODELS": "first"}) as other:
        answer = post(other, RESTORE, restore)
        assert (answer.status, answer.json()) == (
            200,
            {"restored": True, "session_id": "t", "n_tok": 7},
        )
        assert_common_headers(answer)
        there = chat(other, "a b c", "a b c", "more", session_id="t")
        assert post(other, EXPORT, {"session_id": "t"}).json()["n_tok"] > 7
    here = chat(two, "a b c", "a b c", "more", session_id="s")
    assert there["choices"] == here["choices"]
    assert cached(there) == cached(here) == 4


def test_restore_replaces_and_refusal_changes_nothing(two: Server) -> None:
    chat(two, "x y z", session_id="r")
    export = post(two, EXPORT, {"session_id": "r"}).json()
    body = {"session_id": "r", "blob": export["blob_b64"], "tokens": export["tokens"]}
    assert post(two, RESTORE, body | {"blob": "AAAA"}).status == 400
    assert post(two, EXPORT, {"session_id": "r"}).json() == export
    chat(two, "other", session_id="r")
    assert post(two, RESTORE, body).status == 200
    assert post(two, EXPORT, {"session_id": "r"}).json() == export
    assert post(two, RELEASE, {"session_id": "r"}).status == 200


def test_release_frees_now_and_is_idempotent(two: Server) -> None:
    chat(two, "a b c", session_id="released")
    for _ in range(2):
        answer = post(two, RELEASE, {"name": "first", "session_id": "released"})
        assert (answer.status, answer.json()) == (
            200,
            {"released": True, "session_id": "released"},
        )
        assert_common_headers(answer)
    assert post(two, EXPORT, {"session_id": "released"}).status == 404
    assert cached(chat(two, "a b c", session_id="released")) == 0
    post(two, RELEASE, {"session_id": "released"})


def test_name_selects_the_model_and_absent_is_the_default(two: Server) -> None:
    chat(two, "a b c", session_id="named", model="second")
    assert post(two, EXPORT, {"name": "second", "session_id": "named"}).status == 200
    for name in ({}, {"name": None}, {"name": ""}, {"name": "first"}):
        assert post(two, EXPORT, {**name, "session_id": "named"}).status == 404
    assert post(two, RELEASE, {"name": "second", "session_id": "named"}).status == 200


@pytest.mark.parametrize("path", [RESTORE, RELEASE])
def test_body_comes_before_the_header(two: Server, path: str) -> None:
    chat(two, "a", session_id="origin")
    export = post(two, EXPORT, {"session_id": "origin"}).json()
    body = {"blob": export["blob_b64"], "tokens": export["tokens"]}
    for given, used in (
        ({"session_id": "body"}, "body"),
        ({"session_id": ""}, "header"),
        ({"session_id": None}, "header"),
        ({"session_id": 5}, "header"),
        ({}, "header"),
    ):
        answer = post(two, path, body | given, "X-Session-Id: header")
        assert answer.json()["session_id"] == used
        post(two, RELEASE, {"session_id": used})
    post(two, RELEASE, {"session_id": "origin"})


SOURCES = ("session_id", "prompt_cache_key", "promptCacheKey", "header")


@pytest.mark.parametrize("first", range(5))
def test_chat_takes_its_session_from_four_places_in_their_order(server: Server, first: int) -> None:
    """Those before `first` are empty or absent, those behind it are given and count for nothing."""
    fields: dict[str, object] = {name: "" for name in SOURCES[:first]}
    fields |= {name: f"by {name}" for name in SOURCES[first:]}
    header = f"X-Session-Id: {fields.pop('header')}"
    answer = post_chat(server, say("asked", **fields), header)
    asked = json.loads(answer.json()["choices"][0]["message"]["content"])
    expected = f"by {SOURCES[first]}" if first < 4 else None
    assert asked["session_id"] == expected
    # The server is shared, and its sessions are few.
    post(server, RELEASE, {"session_id": expected or "none"})


def test_only_the_first_choice_uses_the_session(server: Server) -> None:
    choices = post_chat(server, say("asked", session_id="s", n=3)).json()["choices"]
    asked = [json.loads(choice["message"]["content"]) for choice in choices]
    assert [request["session_id"] for request in asked] == ["s", None, None]
    post(server, RELEASE, {"session_id": "s"})


def test_session_conflict_is_there_only_when_it_is_so(server: Server) -> None:
    assert post_chat(server, say("conflict 2")).json()["usage"]["session_conflict"] is True
    assert "session_conflict" not in post_chat(server, say("words 2")).json()["usage"]
    body = say("conflict 2", stream=True, stream_options={"include_usage": True})
    usage = json.loads(events_of(post_chat(server, body).body)[-2])["usage"]
    assert usage["session_conflict"] is True


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        # The example of the reference, and what is not given or not positive is a default.
        ("tokens=4096", {"tokens": 4096, "warm_restore_s": 5.391, "blob_bytes_est": 67108864}),
        ("tokens=4096&upload_bps=0&blob_bytes=-5", {"warm_restore_s": 5.391}),
        ("tokens=4096&upload_bps=nan&blob_bytes=x", {"warm_restore_s": 5.391}),
        ("tokens=4096&upload_bps=-1&blob_bytes=0", {"warm_restore_s": 5.391}),
        ("tokens=4096&upload_bps=inf&blob_bytes=1e3", {"warm_restore_s": 5.391}),
        ("tokens=4096", {"cold_reprefill_s": 240.94, "prefill_tok_per_s": 17.0}),
        ("tokens=1&tokens=2", {"tokens": 2}),
        ("tokens=1&blob_bytes=3000000000&upload_bps=1e9", {"warm_restore_s": 4.0}),
        ("tokens=1&name=second", {"model": "second"}),
        ("tokens=1&name=nope", {"model": ""}),
        ("tokens=1&name=", {"model": "first"}),
        ("tokens=1", {"model": "first"}),
        (f"tokens={10**30}", {"tokens": 10**30}),
        ("tokens=1&blob_bytes=" + "9" * 300 + "&upload_bps=1e-300", {"tokens": 1}),
    ],
)
def test_estimate(two: Server, query: str, expected: dict[str, object]) -> None:
    answer = get(two, f"{ESTIMATE}?{query}")
    assert answer.status == 200
    assert_common_headers(answer)
    body = json.loads(answer.body, parse_constant=lambda name: pytest.fail(name))
    assert list(body) == [
        "model", "tokens", "prefill_tok_per_s", "cold_reprefill_s", "warm_restore_s",
        "blob_bytes_est",
    ]  # fmt: skip
    assert body | expected == body


def test_session_expires_neither_with_the_connection_nor_with_another_model(two: Server) -> None:
    chat(two, "a b c", session_id="kept")
    chat(two, "a b c", session_id="kept", model="second")
    assert cached(chat(two, "a b c", session_id="kept")) == 3
    for name in ("first", "second"):
        assert post(two, RELEASE, {"name": name, "session_id": "kept"}).status == 200


@pytest.mark.parametrize(
    "data",
    [
        request_bytes("GET", f"{ESTIMATE}?tokens=1"),
        request_bytes("HEAD", f"{ESTIMATE}?tokens=1"),
        request_bytes("HEAD", "/session/watch?session_id=s"),
        request_bytes("HEAD", "/session/watch"),
        request_bytes("OPTIONS", RESTORE),
        request_bytes("GET", RESTORE),
        request_bytes("POST", ESTIMATE, b"{}"),
    ],
)
def test_every_answer_has_the_headers_of_every_answer(two: Server, data: bytes) -> None:
    assert_common_headers(exchange(two, data))
