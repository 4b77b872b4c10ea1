"""One test for each field of both responses of `POST /v1/chat/completions`, named after it."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest

from tests.server.process import Server
from tests.server.wire import events_of, get, post_chat, say

pytestmark = pytest.mark.server

JSON = {"type": "json_object"}
USAGE = {"include_usage": True}


def plain(server: Server, text: str, **fields: Any) -> Any:
    answer = post_chat(server, say(text, **fields))
    assert answer.status == 200, answer.body
    return answer.json()


def chunks(server: Server, text: str, **fields: Any) -> list[Any]:
    """The JSON events of a stream that ends with its sentinel."""
    answer = post_chat(server, say(text, stream=True, **fields))
    assert answer.status == 200, answer.body
    *events, done = events_of(answer.body)
    assert done == "[DONE]"
    return [json.loads(event) for event in events]


def deltas(events: list[Any]) -> list[Any]:
    return [choice["delta"] for event in events for choice in event["choices"]]


def test_id(server: Server) -> None:
    ids = {plain(server, "x")["id"] for _ in range(3)}
    assert len(ids) == 3
    streamed = {chunk["id"] for chunk in chunks(server, "words 3", stream_options=USAGE)}
    assert len(streamed) == 1
    for found in ids | streamed:
        assert re.fullmatch("chatcmpl-[0-9a-f]{8,}", found)


def test_object(server: Server) -> None:
    assert plain(server, "x")["object"] == "chat.completion"
    objects = {chunk["object"] for chunk in chunks(server, "x", stream_options=USAGE)}
    assert objects == {"chat.completion.chunk"}


def test_created(server: Server) -> None:
    """Unix seconds, the same in every chunk."""
    for events in ([plain(server, "x")], chunks(server, "words 3", stream_options=USAGE)):
        (created,) = {event["created"] for event in events}
        assert abs(created - time.time()) < 60


def test_model(server: Server) -> None:
    """The served name, whatever the request called it."""
    assert plain(server, "x", model="other")["model"] == "scripted"
    assert {c["model"] for c in chunks(server, "x", stream_options=USAGE)} == {"scripted"}


def test_choices_index(server: Server) -> None:
    """With `n` > 1 the choices stream one after another, told apart by their index."""
    assert [c["index"] for c in plain(server, "x", n=3)["choices"]] == [0, 1, 2]
    events = chunks(server, "words 2", n=3)
    indices = [event["choices"][0]["index"] for event in events]
    assert indices == [0] * 4 + [1] * 4 + [2] * 4


def test_message_role(server: Server) -> None:
    """In a stream the first chunk of each choice."""
    assert plain(server, "x")["choices"][0]["message"]["role"] == "assistant"
    first, *_ = deltas(chunks(server, "x"))
    assert first == {"role": "assistant"}
    roles = [delta for delta in deltas(chunks(server, "x", n=2)) if "role" in delta]
    assert roles == [{"role": "assistant"}] * 2


def test_message_content(server: Server) -> None:
    """The text; a string also when there is none."""
    assert plain(server, "words 3")["choices"][0]["message"]["content"] == "w0 w1 w2"
    assert plain(server, "words 0")["choices"][0]["message"]["content"] == ""
    parts = [delta.get("content") for delta in deltas(chunks(server, "words 3"))]
    assert parts == [None, "w0", " w1", " w2", None]


def test_message_reasoning_content(server: Server) -> None:
    """Present only when non-empty; in a stream before the content."""
    message = plain(server, "think 2 2")["choices"][0]["message"]
    assert message == {"role": "assistant", "content": "w0 w1", "reasoning_content": "t0 t1"}
    assert "reasoning_content" not in plain(server, "words 2")["choices"][0]["message"]
    assert deltas(chunks(server, "think 2 2")) == [
        {"role": "assistant"},
        {"reasoning_content": "t0"},
        {"reasoning_content": " t1"},
        {"content": "w0"},
        {"content": " w1"},
        {},
    ]


@pytest.mark.parametrize(
    ("text", "fields", "reason"),
    [
        ("words 2", {}, "stop"),
        ("words 2", {"stop": "w1"}, "stop"),
        ("words 2", {"max_tokens": 1}, "length"),
        ("loop 2", {}, "repetition_loop"),
        ("think 5 2", {"max_tokens": 3}, "length"),
    ],
)
def test_finish_reason(server: Server, text: str, fields: dict[str, Any], reason: str) -> None:
    """In a stream it is null on every chunk but the closing one."""
    assert plain(server, text, **fields)["choices"][0]["finish_reason"] == reason
    reasons = [c["choices"][0]["finish_reason"] for c in chunks(server, text, **fields)]
    assert reasons == [None] * (len(reasons) - 1) + [reason]


def test_logprobs(server: Server) -> None:
    """On the choice; in a stream on the chunk that carries those tokens."""
    fields = {"logprobs": True, "top_logprobs": 1}
    whole = plain(server, "pairs 3", **fields)["choices"][0]["logprobs"]["content"]
    assert [token["token"] for token in whole] == ["w0", " w1", " w2"]
    found = []
    for chunk in chunks(server, "pairs 3", **fields):
        (choice,) = chunk["choices"]
        if "content" not in choice["delta"]:
            assert "logprobs" not in choice
            continue
        tokens = choice["logprobs"]["content"]
        assert "".join(token["token"] for token in tokens) == choice["delta"]["content"]
        found += tokens
    assert found == whole


def test_logprobs_token_fields(server: Server) -> None:
    fields = {"logprobs": True, "top_logprobs": 1}
    answer = post_chat(server, {"messages": [{"content": "🦜"}], **fields})
    # JSON has no NaN and no infinities, whatever Python's reader takes.
    content = json.loads(answer.body, parse_constant=pytest.fail)["choices"][0]["logprobs"]
    (token,) = content["content"]
    assert (token["token"], bytes(token["bytes"]), token["logprob"]) == ("🦜", "🦜".encode(), -0.5)
    (other,) = token["top_logprobs"]
    assert set(other) == {"token", "logprob", "bytes"}


def test_usage(server: Server) -> None:
    """Two words and their turn; the prompt counted once, completion tokens summed."""
    assert plain(server, "words 2", n=3)["usage"] == {
        "prompt_tokens": 3,
        "completion_tokens": 9,
        "total_tokens": 12,
        "prompt_tokens_details": {"cached_tokens": 0},
        "kv_used": 5,
        "kv_cap": 4096,
    }


def test_usage_chunk(server: Server) -> None:
    """Last before `[DONE]`, without choices, once for the whole request."""
    *others, usage = chunks(server, "words 2", n=3, stream_options=USAGE)
    assert usage["choices"] == []
    assert usage["usage"] == plain(server, "words 2", n=3)["usage"]
    assert all("usage" not in chunk and chunk["choices"] for chunk in others)


def test_kv_cap(server: Server) -> None:
    """The number that `GET /v1/models` advertises as `context_window`."""
    (model,) = get(server, "/v1/models").json()["data"]
    assert plain(server, "x")["usage"]["kv_cap"] == model["context_window"]


TOOL = {"type": "function", "function": {"name": "ping"}}
STATUSES = [
    ("words 1", {"response_format": JSON}, "applied"),
    ("words 1", {"response_format": {"type": "text"}}, "applied"),
    ("words 1", {"response_format": {"type": "json_schema"}}, "schema_downgraded"),
    ("words 1", {"response_format": JSON, "tools": [TOOL]}, "ignored_tools_present"),
    ("words 1", {"response_format": JSON, "tools": [TOOL], "tool_choice": "none"}, "applied"),
    ("words 1", {"response_format": JSON, "tools": []}, "applied"),
    ("words 1", {"response_format": {"type": "grammar"}}, "ignored_unknown_type"),
    ("words 1", {"response_format": {}}, "ignored_unknown_type"),
    ("open 1", {"response_format": JSON}, "not_enforced"),
    ("words 5", {"response_format": JSON, "max_tokens": 2}, "not_enforced"),
    ("words 1", {"response_format": None}, None),
    ("words 1", {}, None),
]


@pytest.mark.parametrize(("text", "fields", "status"), STATUSES)
def test_response_format_status(server: Server, text: str, fields: Any, status: Any) -> None:
    """Top-level when the request sent `response_format`; in a stream on the closing chunk."""
    assert plain(server, text, **fields).get("response_format_status") == status
    *others, closing = chunks(server, text, **fields)
    assert closing.get("response_format_status") == status
    assert not any("response_format_status" in chunk for chunk in others)


@pytest.mark.parametrize(
    ("text", "fields", "indices", "status"),
    [
        ("words 1", {"n": 9}, [0, 1, 2, 3, 4, 5, 6, 7], "capped_to_8"),
        ("busy seed 9", {"n": 4, "seed": 7}, [0, 1], "partial_slot_unavailable"),
        ("fail seed 8", {"n": 3, "seed": 7}, [0, 2], "partial_generation_failed"),
        ("words 1", {"n": 2}, [0, 1], None),
    ],
)
def test_n_status(server: Server, text: str, fields: Any, indices: Any, status: Any) -> None:
    answer = plain(server, text, **fields)
    assert [choice["index"] for choice in answer["choices"]] == indices
    assert answer.get("n_status") == status
    *others, closing = chunks(server, text, **fields)
    assert closing.get("n_status") == status
    assert not any("n_status" in chunk for chunk in others)


def test_later_failure_in_a_stream_closes_its_choice_with_stop(server: Server) -> None:
    events = chunks(server, "fail seed 8", n=3, seed=7, stream_options=USAGE)
    closed = {
        choice["index"]: choice["finish_reason"]
        for event in events
        for choice in event["choices"]
        if choice["finish_reason"]
    }
    assert closed == {0: "stop", 1: "stop", 2: "stop"}
    assert events[-1]["usage"]["completion_tokens"] == 8


def test_keys_that_are_omitted_are_absent(server: Server) -> None:
    """Design reading: what the reference calls omitted is never null."""
    answer = plain(server, "words 1")
    assert set(answer) == {"id", "object", "created", "model", "choices", "usage"}
    assert set(answer["choices"][0]) == {"index", "message", "finish_reason"}
    assert set(answer["choices"][0]["message"]) == {"role", "content"}
    assert "session_conflict" not in answer["usage"]
    assert "context_capped" not in answer["usage"]
    for chunk in chunks(server, "words 1"):
        assert set(chunk) == {"id", "object", "created", "model", "choices"}
        assert set(chunk["choices"][0]) == {"index", "delta", "finish_reason"}


@pytest.mark.parametrize("text", ["words 5", "think 3 4", "pairs 5", "loop 3", "a 🦜 b 你好"])
def test_stream_joins_to_the_message(server: Server, text: str) -> None:
    message = plain(server, text)["choices"][0]["message"]
    found = deltas(chunks(server, text))
    assert "".join(delta.get("content", "") for delta in found) == message["content"]
    reasoning = "".join(delta.get("reasoning_content", "") for delta in found)
    assert reasoning == message.get("reasoning_content", "")
