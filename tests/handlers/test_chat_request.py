"""From bodies to what the engine is asked (reference, request body)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pantheon.engine import CompletionRequest
from pantheon.generated.models import ChatCompletionParams
from pantheon.generated.parsing import to_model
from pantheon.handlers.chat_request import ChatRequest, read_chat_request


def read(content_parts: bool = False, **fields: Any) -> ChatRequest:
    body = {"messages": [{"role": "user", "content": "hi"}], **fields}
    return read_chat_request(
        to_model(body, ChatCompletionParams), content_parts, enforce_schema=False
    )


def completion(**fields: Any) -> CompletionRequest:
    return read(**fields).completions[0]


def messages(*given_messages: Any, **options: Any) -> list[Any]:
    return list(read(messages=list(given_messages), **options).completions[0].messages)


def test_defaults() -> None:
    chat = read()
    assert chat.completions[0].model is None
    sampling = chat.completions[0].sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (0.7, 0.95, 40)
    assert sampling.seed is None
    assert chat.completions[0].max_tokens == 1024
    assert chat.completions[0].stop == ()
    assert (chat.stream, chat.include_usage, chat.unread_content) == (False, False, False)


def test_null_means_absent() -> None:
    names = ["model", "temperature", "top_p", "top_k", "max_tokens", "max_completion_tokens"]
    names += ["stop", "stream", "stream_options", "seed", "presence_penalty", "frequency_penalty"]
    names += ["logit_bias", "logprobs", "top_logprobs", "n", "response_format", "enable_thinking"]
    names += ["reasoning_budget", "max_reasoning_tokens", "tools", "tool_choice", "session_id"]
    assert read(**dict.fromkeys(names)) == read()


def test_model_is_the_routing_key() -> None:
    assert completion(model="my-model").model == "my-model"
    assert completion(model="").model == ""


def test_missing_role_is_user() -> None:
    assert messages({"content": "a"}) == [{"role": "user", "content": "a"}]
    assert messages({"role": None, "content": "a"}) == [{"role": "user", "content": "a"}]


def test_developer_is_system() -> None:
    assert messages({"role": "developer", "content": "a"})[0]["role"] == "system"


@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool"])
def test_roles_are_kept(role: str) -> None:
    assert messages({"role": role, "content": "a"}) == [{"role": role, "content": "a"}]


@pytest.mark.parametrize("content", [None, 7, True, 1.5, {"text": "x"}, [], [{"text": "x"}]])
def test_content_that_is_no_string_is_empty(content: Any) -> None:
    assert messages({"content": content}) == [{"role": "user", "content": ""}]


def test_absent_content_is_empty() -> None:
    assert messages({"role": "assistant"}) == [{"role": "assistant", "content": ""}]


@pytest.mark.parametrize(
    ("content", "unread"),
    [("x", False), (None, False), ("", False), (7, True), ([{"type": "text", "text": "x"}], True)],
)
def test_content_that_is_lost_is_reported(content: Any, unread: bool) -> None:
    assert read(messages=[{"content": content}]).unread_content is unread


def test_content_parts_are_joined_when_switched_on() -> None:
    """An addition to the reference, off by default."""
    parts = [{"type": "text", "text": "a"}, {"type": "image_url"}, {"text": 7}, "x", {"text": "b"}]
    assert messages({"content": parts}, content_parts=True) == [{"role": "user", "content": "ab"}]
    assert not read(messages=[{"content": parts}], content_parts=True).unread_content
    assert read(messages=[{"content": 7}], content_parts=True).unread_content


def test_reasoning_content_is_for_assistant_turns_only() -> None:
    fields = {"content": "a", "reasoning_content": "r"}
    assert messages({"role": "assistant", **fields})[0]["reasoning_content"] == "r"
    assert "reasoning_content" not in messages({"role": "user", **fields})[0]
    assert "reasoning_content" not in messages({"role": "assistant", "content": "a"})[0]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, 1024),
        ({"max_tokens": 5}, 5),
        ({"max_completion_tokens": 5}, 5),
        ({"max_tokens": 5, "max_completion_tokens": 9}, 5),
        ({"max_tokens": None, "max_completion_tokens": 9}, 9),
        ({"max_tokens": 0}, 512),
        ({"max_tokens": -1}, 512),
        ({"max_tokens": 0, "max_completion_tokens": 9}, 512),
        ({"max_completion_tokens": -(10**300)}, 512),
        ({"max_tokens": 1_048_576}, 1_048_576),
        ({"max_tokens": 1_048_577}, 1_048_576),
        ({"max_tokens": 10**300}, 1_048_576),
        ({"max_tokens": 5.0}, 5),
    ],
)
def test_max_tokens(fields: dict[str, Any], expected: int) -> None:
    assert completion(**fields).max_tokens == expected


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        ("a", ("a",)),
        ("", ()),
        ([], ()),
        (["a", "", "b", "a"], ("a", "b")),
        ("\n", ("\n",)),
    ],
)
def test_stop_forms(stop: Any, expected: tuple[str, ...]) -> None:
    assert completion(stop=stop).stop == expected


def test_stream_options() -> None:
    assert read(stream=True).stream
    assert read(stream=True, stream_options={"include_usage": True}).include_usage
    assert not read(stream=True, stream_options={}).include_usage


@pytest.mark.parametrize(
    ("n", "choices", "capped"),
    [
        (1, 1, False),
        (3, 3, False),
        (8, 8, False),
        (9, 8, True),
        (10**300, 8, True),
        (0, 1, False),
        (-1, 1, False),
        (2.0, 2, False),
        (None, 1, False),
    ],
)
def test_n_is_between_one_and_eight(n: Any, choices: int, capped: bool) -> None:
    """Reference, `n`: capped at 8; zero and less count as one."""
    chat = read(n=n)
    assert (len(chat.completions), chat.is_capped) == (choices, capped)


def test_choice_i_uses_seed_plus_i() -> None:
    assert [c.sampling.seed for c in read(n=3, seed=7).completions] == [7, 8, 9]
    assert [c.sampling.seed for c in read(n=2, seed=2**63 - 1).completions] == [2**63 - 1, 0]


def test_choices_without_a_seed_draw_their_own() -> None:
    assert [c.sampling.seed for c in read(n=3).completions] == [None, None, None]


def test_choices_differ_in_their_seeds_alone() -> None:
    first, second = read(n=2, seed=1, max_tokens=5, stop="x").completions
    assert replace(second, sampling=first.sampling) == first


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"reasoning_budget": 5}, 5),
        ({"max_reasoning_tokens": 5}, 5),
        ({"reasoning_budget": 3, "max_reasoning_tokens": 9}, 3),
        ({"reasoning_budget": None, "max_reasoning_tokens": 9}, 9),
        ({"reasoning_budget": 0, "max_reasoning_tokens": 9}, 0),
        ({"reasoning_budget": -(10**300)}, 0),
        ({"reasoning_budget": 10**12}, 1_048_576),
        ({"reasoning_budget": 1}, 1),
    ],
)
def test_reasoning_budget(fields: dict[str, Any], expected: int | None) -> None:
    """Reference, `reasoning_budget`: wins over its alias; zero or negative disables it."""
    assert completion(**fields).reasoning_budget == expected


@pytest.mark.parametrize("value", [True, False, None])
def test_enable_thinking_is_passed_on(value: bool | None) -> None:
    assert completion(enable_thinking=value).enable_thinking is value


@pytest.mark.parametrize("content", [{"content": None}, {}, {"content": ""}])
@pytest.mark.parametrize("calls", [[{"id": "c", "function": {"name": "f"}}], []])
def test_message_with_tool_calls_and_no_content_is_kept(content: Any, calls: Any) -> None:
    turn = {"role": "assistant", "tool_calls": calls, **content}
    chat = read(messages=[turn, {"role": "tool", "tool_call_id": "c", "content": "r"}])
    assert [m["role"] for m in chat.completions[0].messages] == ["assistant", "tool"]
    assert chat.completions[0].messages[0]["content"] == ""
    assert not chat.unread_content


def test_unknown_fields_are_ignored() -> None:
    assert read(min_p=0.1, unknown={"deep": [None]}) == read()
