"""Sampling parameters of a body (reference, request body)."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pantheon.engine import CompletionRequest
from pantheon.generated.models import ChatCompletionParams
from pantheon.generated.parsing import to_model
from pantheon.handlers.chat_request import read_chat_request


def completion(**fields: Any) -> CompletionRequest:
    body = {"messages": [{"role": "user", "content": "hi"}], **fields}
    params = to_model(body, ChatCompletionParams)
    return read_chat_request(params, content_parts=False, enforce_schema=False).completions[0]


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


@pytest.mark.parametrize("name", ["presence_penalty", "frequency_penalty"])
@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, 0.0), (1.5, 1.5), (2, 2.0), (2.1, 2.0), (-2.1, -2.0), (1e300, 2.0), (-(10**300), -2.0)],
)
def test_penalties_are_clamped(name: str, value: float, expected: float) -> None:
    assert getattr(completion(**{name: value}).sampling, name) == expected


@pytest.mark.parametrize(
    ("given_bias", "expected"),
    [
        ({}, ()),
        ({"5": 1}, ((5, 1.0),)),
        ({"5": 1000, "6": -1000.5}, ((5, 100.0), (6, -100.0))),
        ({"5": 10**300, "6": -(10**300)}, ((5, 100.0), (6, -100.0))),
        ({"a": 1, "": 1, "1.5": 1, "-1": 1, " 7": 1, "1e3": 1, "٣": 1, "9" * 5000: 1}, ()),
        ({"1": "x", "2": [1], "3": None, "4": True, "5": {}}, ()),
        ({"5": 1, "05": 2}, ((5, 2.0),)),
    ],
)
def test_logit_bias_is_clamped_and_what_is_no_number_is_skipped(
    given_bias: dict[str, Any], expected: tuple[tuple[int, float], ...]
) -> None:
    assert completion(logit_bias=given_bias).sampling.logit_bias == expected


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.text() | st.integers().map(str), _JSON))
def test_any_logit_bias_becomes_finite_pairs(bias: dict[str, Any]) -> None:
    for token, value in completion(logit_bias=bias).sampling.logit_bias:
        assert token >= 0
        assert math.isfinite(value) and abs(value) <= 100
        assert json.loads(json.dumps(value)) == value


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"logprobs": False, "top_logprobs": 5}, None),
        ({"top_logprobs": 5}, None),
        ({"logprobs": True}, 0),
        ({"logprobs": True, "top_logprobs": 5}, 5),
        ({"logprobs": True, "top_logprobs": 25}, 20),
        ({"logprobs": True, "top_logprobs": -1}, 0),
        ({"logprobs": True, "top_logprobs": None}, 0),
        ({"logprobs": True, "top_logprobs": 10**300}, 20),
    ],
)
def test_top_logprobs_are_clamped_and_need_logprobs(
    fields: dict[str, Any], expected: int | None
) -> None:
    assert completion(**fields).top_logprobs == expected
