"""One test per row of the reference's request table that this server reads so far."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pantheon.engine import CompletionRequest
from pantheon.generated.models import ChatCompletionParams
from pantheon.generated.parsing import to_model
from pantheon.handlers.chat_request import ChatRequest, read_chat_request


def read(content_parts: bool = False, **fields: Any) -> ChatRequest:
    body = {"messages": [{"role": "user", "content": "hi"}], **fields}
    return read_chat_request(to_model(body, ChatCompletionParams), content_parts)


def completion(**fields: Any) -> CompletionRequest:
    return read(**fields).completion


def messages(*given_messages: Any, **options: Any) -> list[Any]:
    return list(read(messages=list(given_messages), **options).completion.messages)


def test_defaults() -> None:
    chat = read()
    assert chat.completion.model is None
    sampling = chat.completion.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (0.7, 0.95, 40)
    assert sampling.seed is None
    assert chat.completion.max_tokens == 1024
    assert chat.completion.stop == ()
    assert (chat.stream, chat.include_usage, chat.unread_content) == (False, False, False)


def test_null_means_absent() -> None:
    names = ["model", "temperature", "top_p", "top_k", "max_tokens", "max_completion_tokens"]
    names += ["stop", "stream", "stream_options", "seed"]
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
    ("given_temperature", "expected"),
    [(0, 0.0), (-3, 0.0), (1, 1.0), (1e-300, 0.0), (2.5, 2.5), (1e300, 1000.0), (10**300, 1000.0)],
)
def test_temperature_is_greedy_from_zero_down(given_temperature: float, expected: float) -> None:
    assert completion(temperature=given_temperature).sampling.temperature == expected


@given(st.integers(-(10**307), 10**307) | st.floats(allow_nan=False, allow_infinity=False))
def test_sampling_is_always_in_single_precision_range(number: int | float) -> None:
    sampling = completion(temperature=number, top_p=number, seed=number).sampling
    assert sampling.temperature == 0 or 1e-6 <= sampling.temperature <= 1e3
    assert 0 <= sampling.top_p <= 1
    assert sampling.seed is not None
    assert 0 <= sampling.seed < 2**63


@pytest.mark.parametrize(("given_k", "expected"), [(0, 0), (-1, 0), (40, 40), (10**100, 2**31 - 1)])
def test_top_k(given_k: int, expected: int) -> None:
    assert completion(top_k=given_k).sampling.top_k == expected


@pytest.mark.parametrize(("seed", "expected"), [(0, 0), (7, 7), (7.9, 7), (2**63 + 1, 1)])
def test_seed_is_any_number(seed: float, expected: int) -> None:
    assert completion(seed=seed).sampling.seed == expected


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


def test_fields_of_features_to_come_are_accepted() -> None:
    fields = {
        "n": 3,
        "tools": [{"type": "function"}],
        "logprobs": True,
        "presence_penalty": 1.5,
        "response_format": {"type": "json_object"},
        "x": object,
    }
    assert completion(**fields) == completion()
