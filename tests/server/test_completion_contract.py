"""One test for each row of the request table of `POST /v1/chat/completions`, named after it.

Over a live server whose scripted engine answers `asked` with what it was asked, as JSON.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.process import Server, start_server
from tests.server.wire import events_of, post_chat, say

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def two_models() -> Iterator[Server]:
    with start_server(environment={"SCRIPTED_MODELS": "first,second"}) as started:
        yield started


def post(server: Server, body: Any, *headers: str) -> Any:
    answer = post_chat(server, body, *headers)
    assert answer.status == 200, answer.body
    return answer.json()


def asked(server: Server, *earlier: Any, **fields: Any) -> Any:
    """What the engine is asked when `earlier` messages and `fields` are sent."""
    messages = [*earlier, {"role": "user", "content": "asked"}]
    answer = post(server, {"messages": messages, **fields})
    return json.loads(answer["choices"][0]["message"]["content"])


def sampling(server: Server, **fields: Any) -> Any:
    return asked(server, **fields)["sampling"]


def refusal(server: Server, **fields: Any) -> str:
    answer = post_chat(server, say("asked", **fields))
    assert (answer.status, answer.error_type()) == (400, "invalid_request_error")
    return str(answer.json()["error"]["message"])


def test_header_content_type(server: Server) -> None:
    """Not checked; the body is parsed as JSON regardless."""
    assert post(server, say("hello"), "Content-Type: text/plain")["choices"]


def test_model(server: Server, two_models: Server) -> None:
    """One model: any value or none routes to it. Several: exactly a served name."""
    for fields in ({}, {"model": None}, {"model": "any"}, {"model": ""}):
        assert post(server, say("x", **fields))["model"] == "scripted"
    for name in ("first", "second"):
        assert post(two_models, say("x", model=name))["model"] == name
    for fields in ({}, {"model": "First"}, {"model": "first "}):
        answer = post_chat(two_models, say("x", **fields))
        assert (answer.status, answer.error_type()) == (404, "model_not_found")


def test_messages(server: Server) -> None:
    """Roles, a missing role, contents of another type."""
    earlier = [
        {"role": "system", "content": "a"},
        {"role": "developer", "content": "b"},
        {"role": "user", "content": "c"},
        {"role": "assistant", "content": "d"},
        {"role": "tool", "tool_call_id": "1", "content": "e"},
        {"content": "f"},
        {"role": "user", "content": [{"type": "text", "text": "g"}]},
        {"role": "user", "content": 7},
        {"role": "user"},
    ]
    read = asked(server, *earlier)["messages"][:-1]
    roles = ["system", "system", "user", "assistant", "tool", *["user"] * 4]
    assert [message["role"] for message in read] == roles
    assert [message["content"] for message in read] == [*"abcdef", "", "", ""]


def test_messages_content_parts() -> None:
    """An addition to the reference; without it the log names the setting, once per client."""
    parts = [{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}]
    body = {"messages": [{"content": parts}]}
    with start_server(environment={"PANTHEON_CONTENT_PARTS": "1"}) as joined:
        assert post(joined, body)["choices"][0]["message"]["content"] == "ab"
        assert "PANTHEON_CONTENT_PARTS" not in joined.log.read_text()
    with start_server() as plain:
        for agent in ("one", "two", "one"):
            answer = post(plain, body, f"User-Agent: {agent}")
            assert answer["choices"][0]["message"]["content"] == ""
        lines = [x for x in plain.log.read_text().splitlines() if "PANTHEON_CONTENT_PARTS" in x]
        assert len(lines) == 2
        assert "127.0.0.1 one" in lines[0] and "127.0.0.1 two" in lines[1]


def test_messages_reasoning_content(server: Server) -> None:
    """Assistant turns only: passed on to be replayed."""
    turns = [
        {"role": "assistant", "content": "a", "reasoning_content": "r"},
        {"role": "assistant", "content": "b", "reasoning_content": None},
        {"role": "user", "content": "c", "reasoning_content": "r"},
    ]
    read = asked(server, *turns)["messages"][:-1]
    assert [message.get("reasoning_content") for message in read] == ["r", None, None]


def test_messages_tool_calls_keep_their_message(server: Server) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    for content in ({"content": None}, {}, {"content": ""}):
        turn = {"role": "assistant", "tool_calls": [call], **content}
        read = asked(server, turn, {"role": "tool", "tool_call_id": "1", "content": "r"})
        assert [message["content"] for message in read["messages"]] == ["", "r", "asked"]


def test_temperature(server: Server) -> None:
    """Default 0.7; zero and less is greedy."""
    for value, expected in ((None, 0.7), (0, 0), (-1, 0), (1.5, 1.5)):
        assert sampling(server, temperature=value)["temperature"] == expected


def test_top_p(server: Server) -> None:
    for value, expected in ((None, 0.95), (0.5, 0.5), (1.5, 1), (-0.1, 0)):
        assert sampling(server, top_p=value)["top_p"] == expected


def test_top_k(server: Server) -> None:
    for value, expected in ((None, 40), (1, 1), (0, 0), (-1, 0)):
        assert sampling(server, top_k=value)["top_k"] == expected


def test_max_tokens(server: Server) -> None:
    """Default 1024; zero or negative is 512; clamped to 1048576."""
    for value, expected in ((None, 1024), (9, 9), (0, 512), (-5, 512), (2**30, 1048576)):
        assert asked(server, max_tokens=value)["max_tokens"] == expected
    choice = post(server, say("words 5", max_tokens=2))["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("w0 w1", "length")


def test_max_completion_tokens(server: Server) -> None:
    """Alias; `max_tokens` wins if both are present."""
    assert asked(server, max_completion_tokens=9)["max_tokens"] == 9
    assert asked(server, max_completion_tokens=9, max_tokens=4)["max_tokens"] == 4
    assert asked(server, max_completion_tokens=9, max_tokens=None)["max_tokens"] == 9


def test_stop(server: Server) -> None:
    """A string or an array; empty strings are ignored."""
    for value, text in (
        ("w2", "w0 w1 "),
        (["x", "w1"], "w0 "),
        ("", "w0 w1 w2"),
        (["", "w2"], "w0 w1 "),
        (None, "w0 w1 w2"),
    ):
        choice = post(server, say("words 3", stop=value))["choices"][0]
        assert (choice["message"]["content"], choice["finish_reason"]) == (text, "stop")
    assert post(server, say("x", stop="y" * 100_000))["choices"]
    for value in (["a", 1], [None], ["x"] * 65, 7):
        assert "stop" in refusal(server, stop=value)


def test_stream(server: Server) -> None:
    for value in (None, False):
        answer = post_chat(server, say("x", stream=value))
        assert answer.header("content-type") == ["application/json"]
    answer = post_chat(server, say("x", stream=True))
    assert answer.header("content-type") == ["text/event-stream"]


def test_stream_options_include_usage(server: Server) -> None:
    """Streaming only: a chunk with usage before `[DONE]`."""
    for options in (None, {}, {"include_usage": False}, {"include_usage": None}):
        answer = post_chat(server, say("x", stream=True, stream_options=options))
        assert b'"usage"' not in answer.body
    answer = post_chat(server, say("x", stream=True, stream_options={"include_usage": True}))
    assert "usage" in json.loads(events_of(answer.body)[-2])
    assert post(server, say("x", stream_options={"include_usage": True}))["usage"]


def test_seed(server: Server) -> None:
    """Any number; choice i uses `seed + i`, each draws its own without one."""
    for value, expected in ((None, None), (7, 7), (7.9, 7), (0, 0)):
        assert sampling(server, seed=value)["seed"] == expected
    for seed, expected in ((7, [7, 8, 9]), (None, [None] * 3)):
        choices = post(server, say("asked", n=3, seed=seed))["choices"]
        contents = [json.loads(choice["message"]["content"]) for choice in choices]
        assert [content["sampling"]["seed"] for content in contents] == expected


def test_presence_penalty(server: Server) -> None:
    for value, expected in ((None, 0), (1.5, 1.5), (3, 2), (-3, -2)):
        assert sampling(server, presence_penalty=value)["presence_penalty"] == expected


def test_frequency_penalty(server: Server) -> None:
    for value, expected in ((None, 0), (1.5, 1.5), (3, 2), (-3, -2)):
        assert sampling(server, frequency_penalty=value)["frequency_penalty"] == expected


def test_logit_bias(server: Server) -> None:
    """Clamped; keys or values that are no numbers are skipped."""
    bias = {"1": 5, "2": 1000, "3": -1000, "x": 1, "4": "y", "5": None, "6": True}
    assert sampling(server, logit_bias=bias)["logit_bias"] == [[1, 5], [2, 100], [3, -100]]
    assert sampling(server, logit_bias=None)["logit_bias"] == []


def test_logprobs(server: Server) -> None:
    for value in (None, False):
        assert "logprobs" not in post(server, say("words 2", logprobs=value))["choices"][0]
    logprobs = post(server, say("words 2", logprobs=True))["choices"][0]["logprobs"]
    assert logprobs == {
        "content": [
            {"token": "w0", "logprob": -0.5, "bytes": [119, 48], "top_logprobs": []},
            {"token": " w1", "logprob": -0.5, "bytes": [32, 119, 49], "top_logprobs": []},
        ]
    }
    assert "logprobs" in refusal(server, logprobs=5)


def test_top_logprobs(server: Server) -> None:
    """Clamped to [0, 20]; without `logprobs` it has no effect."""
    for value, count in ((None, 0), (3, 3), (25, 20), (-1, 0)):
        answer = post(server, say("words 1", logprobs=True, top_logprobs=value))
        (token,) = answer["choices"][0]["logprobs"]["content"]
        assert len(token["top_logprobs"]) == count
    assert "logprobs" not in post(server, say("words 1", top_logprobs=3))["choices"][0]


def test_n(server: Server) -> None:
    """Each a full decode; capped at 8; zero and less count as one."""
    for value, count in ((None, 1), (1, 1), (2, 2), (8, 8), (0, 1), (-1, 1)):
        answer = post(server, say("words 1", n=value))
        assert [choice["index"] for choice in answer["choices"]] == list(range(count))
        assert "n_status" not in answer
    answer = post(server, say("words 1", n=9))
    assert (len(answer["choices"]), answer["n_status"]) == (8, "capped_to_8")
    assert "n: " in refusal(server, n="2")


def test_response_format(server: Server) -> None:
    """The statuses are in the responses' tests; here, what the engine is held to."""
    schema = {"type": "object"}
    for value, constraint in (
        (None, None),
        ({"type": "text"}, None),
        ({"type": "json_object"}, {"schema": None}),
        ({"type": "json_schema", "json_schema": {"schema": schema}}, {"schema": None}),
        ({"type": "grammar"}, None),
        ({}, None),
    ):
        assert asked(server, response_format=value)["response_format"] == constraint
    assert "response_format" in refusal(server, response_format="json_object")


def test_response_format_schema_is_enforced_by_a_setting() -> None:
    """An addition to the reference: PANTHEON_JSON_SCHEMA=1, then the status is `applied`."""
    schema = {"type": "object", "required": ["a"]}
    wanted = {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}
    with start_server(environment={"PANTHEON_JSON_SCHEMA": "1"}) as enforcing:
        assert asked(enforcing, response_format=wanted)["response_format"] == {"schema": schema}
        answer = post(enforcing, say("words 1", response_format=wanted))
        assert answer["response_format_status"] == "applied"


def test_enable_thinking(server: Server) -> None:
    """True opens a think block, false prefills a closed one; absent, a setting decides."""
    for value in (True, False, None):
        assert asked(server, enable_thinking=value)["enable_thinking"] is value
    assert "reasoning_content" in _message(server, "think 2 1", enable_thinking=True)
    assert "reasoning_content" not in _message(server, "think 2 1", enable_thinking=False)


def test_reasoning_budget(server: Server) -> None:
    """Zero or negative disables it."""
    for value, expected in ((None, None), (5, 5), (0, 0), (-1, 0), (10**12, 1048576)):
        assert asked(server, reasoning_budget=value)["reasoning_budget"] == expected
    message = _message(server, "think 9 2", reasoning_budget=3)
    assert (message["reasoning_content"], message["content"]) == ("t0 t1 t2", "w0 w1")
    for value in ("5", 2.5):
        assert "reasoning_budget" in refusal(server, reasoning_budget=value)


def test_max_reasoning_tokens(server: Server) -> None:
    """An alias; `reasoning_budget` wins."""
    assert asked(server, max_reasoning_tokens=5)["reasoning_budget"] == 5
    both = asked(server, max_reasoning_tokens=5, reasoning_budget=3)
    assert both["reasoning_budget"] == 3
    assert asked(server, max_reasoning_tokens=5, reasoning_budget=0)["reasoning_budget"] == 0


def test_null_counts_as_absent(server: Server) -> None:
    names = ("temperature", "stop", "n", "logit_bias", "response_format", "tools", "session_id")
    assert asked(server, **dict.fromkeys(names)) == asked(server)


def test_unknown_fields_are_ignored(server: Server) -> None:
    assert asked(server, min_p=0.1, unknown={"deep": [1, None]}) == asked(server)


def test_too_many_biases_are_refused(server: Server) -> None:
    bias = {str(token): 1 for token in range(200_001)}
    assert "expected at most 200000 members" in refusal(server, logit_bias=bias)


def test_keep_alive_comments_are_sent_only_by_a_setting() -> None:
    """An addition to the reference: PANTHEON_SSE_KEEPALIVE_MS."""
    with start_server(environment={"PANTHEON_SSE_KEEPALIVE_MS": "50"}) as server:
        body = post_chat(server, say("pause 400", stream=True)).body.decode()
        events = body.split("\n\n")
        assert events[0].startswith("data: ")
        assert events[1] == ": keep-alive"
        assert events.count(": keep-alive") >= 2
        began = time.monotonic()
        refused = post_chat(server, say("refuse busy", stream=True))
        assert (refused.status, time.monotonic() - began < 2) == (429, True)


def _message(server: Server, text: str, **fields: Any) -> Any:
    return post(server, say(text, **fields))["choices"][0]["message"]
