"""The completion contract over real models (reference, `POST /v1/chat/completions`).

SmolLM2 answers in words; the tiny think-style model babbles, which is enough to see where its
text goes. A bias of 100 on a token makes a model say it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest

from tests.golden import golden_json
from tests.server.models import serve_minicpm5, serve_smollm2
from tests.server.process import Server
from tests.server.wire import events_of, post_chat

pytestmark = [pytest.mark.server, pytest.mark.timeout(900)]

_PROMPT = golden_json("smollm2/references.json")["prompts"][0]
_THINK_CLOSE = "1015"
"""Id of `</think>` in the tiny think-style model."""


@pytest.fixture(scope="module")
def smollm2() -> Iterator[Server]:
    with serve_smollm2() as started:
        yield started


@pytest.fixture(scope="module")
def thinker() -> Iterator[Server]:
    with serve_minicpm5() as started:
        yield started


@pytest.fixture(params=["smollm2", "thinker"])
def model(request: pytest.FixtureRequest) -> Server:
    started: Server = request.getfixturevalue(request.param)
    return started


def _post(server: Server, **fields: Any) -> Any:
    body = {"messages": [{"role": "user", "content": "Tell me more."}], "max_tokens": 24, **fields}
    answer = post_chat(server, body, timeout=120)
    assert answer.status == 200, answer.body
    if not body.get("stream"):
        return answer.json()
    events = events_of(answer.body)
    assert events.pop() == "[DONE]"
    return [json.loads(event) for event in events]


def _message(server: Server, **fields: Any) -> Any:
    return _post(server, **fields)["choices"][0]["message"]


def _joined(chunks: list[Any], key: str, index: int = 0) -> str:
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    return "".join(c["delta"].get(key, "") for c in choices if c["index"] == index)


@pytest.mark.parametrize("thinking", [True, False])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_stream_joins_to_the_message(model: Server, thinking: bool, seed: int) -> None:
    fields = {"seed": seed, "enable_thinking": thinking, "reasoning_budget": 9, "temperature": 1.2}
    message = _message(model, **fields)
    chunks = _post(model, stream=True, **fields)
    assert _joined(chunks, "content") == message["content"]
    assert _joined(chunks, "reasoning_content") == message.get("reasoning_content", "")


def test_reasoning_budget_closes_the_think_block(thinker: Server) -> None:
    """`reasoning_budget`: force `</think>` after N reasoning tokens; the alias does the same."""
    fields = {"seed": 5, "enable_thinking": True, "logit_bias": {_THINK_CLOSE: -100}}
    message = _message(thinker, reasoning_budget=6, **fields)
    assert message["reasoning_content"] and message["content"]
    assert "think>" not in message["content"] + message["reasoning_content"]
    alias = _message(thinker, max_reasoning_tokens=6, **fields)
    assert alias == message
    both = _message(thinker, reasoning_budget=6, max_reasoning_tokens=12, **fields)
    assert both == message, "reasoning_budget wins"
    longer = _message(thinker, reasoning_budget=12, **fields)
    assert longer["reasoning_content"].startswith(message["reasoning_content"])


@pytest.mark.parametrize("budget", [0, -1, None])
def test_without_a_budget_reasoning_may_take_the_whole_limit(thinker: Server, budget: Any) -> None:
    fields = {"seed": 5, "enable_thinking": True, "logit_bias": {_THINK_CLOSE: -100}}
    answer = _post(thinker, reasoning_budget=budget, **fields)
    choice = answer["choices"][0]
    if choice["finish_reason"] == "length":
        assert answer["usage"]["completion_tokens"] == 24
    assert choice["message"]["reasoning_content"]
    assert choice["message"]["content"] == ""


def test_absent_enable_thinking_opens_a_think_block(thinker: Server) -> None:
    """`enable_thinking`: absent, the PANTHEON_NO_THINK setting decides; it is off here."""
    fields = {"seed": 5, "reasoning_budget": 4}
    assert _message(thinker, **fields) == _message(thinker, enable_thinking=True, **fields)
    off = _message(thinker, enable_thinking=False, **fields)
    assert "reasoning_content" not in off


def test_an_immediately_closed_think_block_is_no_reasoning(thinker: Server) -> None:
    """`reasoning_content` is present only when non-empty."""
    answer = _post(thinker, enable_thinking=True, logit_bias={_THINK_CLOSE: 100}, max_tokens=1)
    assert "reasoning_content" not in answer["choices"][0]["message"]


def test_smollm2_never_splits(smollm2: Server) -> None:
    """Non-think templates return the whole answer as `content`."""
    message = _message(
        smollm2,
        messages=[{"role": "user", "content": "Repeat exactly: <think>a</think>b"}],
        enable_thinking=True,
        reasoning_budget=1,
    )
    assert "reasoning_content" not in message and message["content"]


@pytest.mark.parametrize("top", [0, 5, 20])
def test_logprobs_are_finite_and_ordered(model: Server, top: int) -> None:
    """`logprobs`, `top_logprobs`: with `token`, `logprob`, `bytes`."""
    answer = _post(
        model,
        logprobs=True,
        top_logprobs=top,
        temperature=0,
        enable_thinking=False,
        max_tokens=8,
    )
    (choice,) = answer["choices"]
    entries = choice["logprobs"]["content"]
    ended = choice["finish_reason"] == "stop"
    assert len(entries) == answer["usage"]["completion_tokens"] - ended
    for entry in entries:
        assert -9999 <= entry["logprob"] <= 0
        assert len(entry["top_logprobs"]) == top
        ranked = [alternative["logprob"] for alternative in entry["top_logprobs"]]
        assert ranked == sorted(ranked, reverse=True)
        if top:
            best = entry["top_logprobs"][0]
            assert (best["bytes"], best["logprob"]) == (entry["bytes"], entry["logprob"])
            assert sum(math.exp(logprob) for logprob in ranked) <= 1.001
    data = bytes(byte for entry in entries for byte in entry["bytes"])
    assert data.decode("utf-8", "replace") == choice["message"]["content"]


def test_logprobs_equal_the_float32_reference(smollm2: Server) -> None:
    """tests/data/README.md, smollm2: `hf_top20` at the first place of the answer, within what
    activations, keys and values of 16 bits cost: measured 1.4e-2 in a logit."""
    answer = _post(
        smollm2,
        messages=_PROMPT["messages"],
        logprobs=True,
        top_logprobs=20,
        temperature=0,
        max_tokens=1,
    )
    (entry,) = answer["choices"][0]["logprobs"]["content"]
    expected = [logprob for _, logprob in _PROMPT["hf_top20"]]
    found = [alternative["logprob"] for alternative in entry["top_logprobs"]]
    assert found == pytest.approx(expected, abs=2e-2)


def test_streamed_logprobs_ride_the_chunks_of_their_text(model: Server) -> None:
    fields = {"logprobs": True, "seed": 4, "temperature": 1.5, "enable_thinking": False}
    plain = _post(model, **fields)["choices"][0]
    chunks = _post(model, stream=True, **fields)
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    entries = [
        e for choice in choices for e in (choice.get("logprobs") or {"content": []})["content"]
    ]
    assert entries == plain["logprobs"]["content"]


def test_choice_i_uses_seed_plus_i(model: Server) -> None:
    """`seed`, `n`: each choice is a full decode; usage counts the prompt once."""
    fields = {"temperature": 1.5, "enable_thinking": False, "max_tokens": 10}
    answer = _post(model, n=3, seed=7, **fields)
    singles = [_post(model, seed=seed, **fields) for seed in (7, 8, 9)]
    contents = [choice["message"]["content"] for choice in answer["choices"]]
    assert contents == [single["choices"][0]["message"]["content"] for single in singles]
    assert len(set(contents)) > 1
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert answer["usage"]["prompt_tokens"] == singles[0]["usage"]["prompt_tokens"]
    completion = sum(single["usage"]["completion_tokens"] for single in singles)
    assert answer["usage"]["completion_tokens"] == completion
    chunks = _post(model, n=3, seed=7, stream=True, **fields)
    assert [_joined(chunks, "content", index) for index in range(3)] == contents


def test_more_than_eight_choices_are_capped(thinker: Server) -> None:
    """`n`: capped at 8, and `n_status` says so."""
    answer = _post(thinker, n=9, max_tokens=1)
    assert (len(answer["choices"]), answer["n_status"]) == (8, "capped_to_8")


def test_greedy_choices_are_equal(smollm2: Server) -> None:
    answer = _post(smollm2, messages=_PROMPT["messages"], n=3, temperature=0)
    assert len({choice["message"]["content"] for choice in answer["choices"]}) == 1


def test_logit_bias_bans_and_forces_tokens(smollm2: Server) -> None:
    """`logit_bias`: the best first token of this prompt is 504, "The"."""
    fields = {"messages": _PROMPT["messages"], "temperature": 0, "max_tokens": 3}
    assert _message(smollm2, **fields)["content"].startswith("The")
    banned = _message(smollm2, logit_bias={"504": -100}, **fields)
    assert not banned["content"].startswith("The")
    unchanged = _message(smollm2, logit_bias={"x": 5, "504": "no", "99999999": 100}, **fields)
    assert unchanged["content"].startswith("The")


def test_penalties_change_what_would_repeat(smollm2: Server) -> None:
    """`frequency_penalty`: a clamped penalty equals the limit."""
    fields = {"messages": [{"role": "user", "content": "Say no no no no"}], "temperature": 0}
    plain = _message(smollm2, **fields)["content"]
    limit = _message(smollm2, frequency_penalty=2, presence_penalty=2, **fields)["content"]
    beyond = _message(smollm2, frequency_penalty=50, presence_penalty=99, **fields)["content"]
    assert beyond == limit != plain


def test_a_loop_is_stopped(smollm2: Server) -> None:
    """`finish_reason` repetition_loop: the decode was stopped because the model was looping."""
    answer = _post(smollm2, temperature=0, max_tokens=400, logit_bias={"504": 100})
    assert answer["choices"][0]["finish_reason"] == "repetition_loop"
    assert answer["usage"]["completion_tokens"] == 256


def test_json_object_is_one_object_or_says_it_is_not(model: Server) -> None:
    """`response_format`: `applied`, or `not_enforced` when the object did not close."""
    for seed in range(3):
        answer = _post(
            model,
            response_format={"type": "json_object"},
            seed=seed,
            temperature=1.0,
            enable_thinking=False,
        )
        content = answer["choices"][0]["message"]["content"]
        assert content.startswith("{")
        if answer["response_format_status"] == "applied":
            assert isinstance(json.loads(content), dict)
        else:
            assert answer["response_format_status"] == "not_enforced"
            assert answer["choices"][0]["finish_reason"] == "length"


def test_a_closed_object_ends_the_answer(smollm2: Server) -> None:
    """Nothing may follow the object: no whitespace, no second value."""
    answer = _post(
        smollm2,
        messages=[{"role": "user", "content": 'Write {"answer": 42} as JSON.'}],
        response_format={"type": "json_object"},
        temperature=0,
        max_tokens=200,
    )
    choice = answer["choices"][0]
    if choice["finish_reason"] == "stop":
        assert answer["response_format_status"] == "applied"
        assert isinstance(json.loads(choice["message"]["content"]), dict)
        assert choice["message"]["content"].endswith("}")


def test_the_constraint_starts_after_the_reasoning(thinker: Server) -> None:
    answer = _post(
        thinker,
        response_format={"type": "json_object"},
        enable_thinking=True,
        reasoning_budget=5,
        logit_bias={_THINK_CLOSE: -100},
        seed=1,
    )
    message = answer["choices"][0]["message"]
    assert message["reasoning_content"]
    assert message["content"].startswith("{")
    assert answer["response_format_status"] in ("applied", "not_enforced")


def test_a_json_request_does_not_change_its_neighbour(smollm2: Server) -> None:
    """Rows do not see each other: the greedy answer beside a constrained one is the reference's."""
    answers = _post(smollm2, messages=_PROMPT["messages"], temperature=0, max_tokens=64)
    assert answers["choices"][0]["message"]["content"] == "The capital of France is Paris."
