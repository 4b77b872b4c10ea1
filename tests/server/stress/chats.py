"""Random chats and what must come back of each."""

from __future__ import annotations

import json
from random import Random
from string import ascii_lowercase
from typing import Any

from tests.server.stress.wire import Call, call
from tests.server.wire import CHAT, Answer, events_of

WINDOW = 768
"""Tokens; small, so that conversations reach its end and their pages run out."""

_TEXT = (
    "river stone garden window paper music forest letter winter bridge summer engine market "
    "silver doctor island kitchen village mountain morning picture station teacher weather"
)
_WORDS = _TEXT.split()
_ENDS = {"stop", "length", "repetition_loop"}

CANARIES: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0, "max_tokens": 24},
    "seeded": {"temperature": 1.0, "seed": 7, "top_k": 0, "max_tokens": 24},
    "greedy, cached": {"temperature": 0, "max_tokens": 24, "session_id": "canary"},
    "JSON": {"temperature": 0, "max_tokens": 24, "response_format": {"type": "json_object"}},
}
"""Requests whose answers never change, whatever else runs and whatever was cached before."""


def canary(name: str, stream: bool) -> dict[str, Any]:
    """The body of a canary."""
    message = {"role": "user", "content": _TEXT}
    return {"messages": [message], "stream": stream, **CANARIES[name]}


def sentence(random: Random, most: int = 30) -> str:
    """Some words."""
    return " ".join(random.choices(_WORDS, k=random.randint(1, most)))


def random_fields(random: Random) -> dict[str, Any]:
    """What a chat may carry beside its messages and its session."""
    fields: dict[str, Any] = {
        "max_tokens": random.randint(1, 32),
        "stream": random.random() < 0.5,
        "temperature": random.choice((0, 0.7, 1.5)),
    }
    if fields["stream"]:
        fields["stream_options"] = {"include_usage": True}
    for chance, more in (
        (0.1, {"n": random.randint(2, 4)}),
        (0.2, {"seed": random.randrange(1 << 40)}),
        (0.1, {"response_format": {"type": "json_object"}}),
        (0.1, {"stop": [random.choice(_WORDS), "e"]}),
        (0.1, {"logprobs": True, "top_logprobs": random.randint(0, 5)}),
        (0.1, {"frequency_penalty": 1.0, "presence_penalty": -1.0}),
        (0.1, {"logit_bias": {str(random.randrange(900)): 5}}),
    ):
        if random.random() < chance:
            fields |= more
    return fields


def chat(body: dict[str, Any], *, refusals: frozenset[str] = frozenset()) -> Call:
    """A chat that is answered in full, or refused as one of `refusals`."""

    def check(answer: Answer) -> None:
        refusal = refusal_of(answer)
        if refusal is not None:
            assert refusal in refusals, (answer, body)
        elif body.get("stream"):
            _check_stream(answer, body)
        else:
            _check_json(answer.json(), body)

    return call("chat", "POST", CHAT, json.dumps(body).encode(), check)


def overflow(random: Random) -> Call:
    """A prompt beyond the window."""
    return _over_budget(random, sentence(random) + " word" * WINDOW)


def unseen_words(random: Random) -> Call:
    """A prompt beyond the window whose words fill the cache of the tokenizers library.

    It keeps the first 10,000 words that it merges, some 7 MB, and the model's answers, sent back,
    are full of words.
    """
    words = ("".join(random.choices(ascii_lowercase, k=20)) for _ in range(12_000))
    return _over_budget(random, " ".join(words))


def _over_budget(random: Random, text: str) -> Call:
    body = {
        "messages": [{"role": "user", "content": text}],
        "session_id": "overflow",
        "stream": random.random() < 0.5,
    }

    def check(answer: Answer) -> None:
        assert refusal_of(answer) == "context_over_budget", answer

    return call("overflow", "POST", CHAT, json.dumps(body).encode(), check)


def refusal_of(answer: Answer) -> str | None:
    """The type of the error of a request that was not admitted; None if it was.

    Over budget while streaming is one error event (reference, streaming response).
    """
    if answer.status != 200:
        return answer.error_type()
    if answer.body.startswith(b'data: {"error"'):
        (event,) = events_of(answer.body)
        return str(json.loads(event)["error"]["type"])
    return None


def cached_tokens(answer: Answer) -> int:
    """What the cache spared; 0 where a stream does not tell."""
    usage = _chunks(answer)[-1].get("usage") or {}
    return int(usage.get("prompt_tokens_details", {}).get("cached_tokens", 0))


def text_of(answer: Answer) -> str:
    """The content of the first choice, however it was sent."""
    chunks = _chunks(answer)
    if "message" in chunks[0]["choices"][0]:
        return str(chunks[0]["choices"][0]["message"]["content"])
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    deltas = [choice["delta"] for choice in choices if choice["index"] == 0]
    return "".join(delta.get("content") or "" for delta in deltas)


def _chunks(answer: Answer) -> list[dict[str, Any]]:
    """The chunks of a stream, or the one body of an answer that is none."""
    if not answer.header("Content-Type")[0].startswith("text/event-stream"):
        return [answer.json()]
    return [json.loads(event) for event in events_of(answer.body)[:-1]]


def _check_json(answer: dict[str, Any], body: dict[str, Any]) -> None:
    assert len(answer["choices"]) == body.get("n", 1), answer
    for choice in answer["choices"]:
        assert choice["finish_reason"] in _ENDS, choice
        ended = choice["finish_reason"] == "stop" and choice.get("response_format_status")
        if ended == "applied":
            json.loads(choice["message"]["content"])
    _check_usage(answer["usage"], body)


def _check_stream(answer: Answer, body: dict[str, Any]) -> None:
    assert events_of(answer.body)[-1] == "[DONE]", answer
    chunks = _chunks(answer)
    assert not any("error" in chunk for chunk in chunks), chunks
    ends = [
        choice["index"]
        for chunk in chunks
        for choice in chunk["choices"]
        if choice["finish_reason"] in _ENDS
    ]
    assert sorted(ends) == list(range(body.get("n", 1))), chunks
    if "stream_options" in body:
        _check_usage(chunks[-1]["usage"], body)


def _check_usage(usage: dict[str, Any], body: dict[str, Any]) -> None:
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    assert usage["kv_cap"] == WINDOW, usage
    assert 0 < usage["kv_used"] <= WINDOW, usage
    assert 0 <= cached < usage["prompt_tokens"], usage
    if "session_id" not in body:
        assert cached == 0, "an anonymous request reuses nothing"
