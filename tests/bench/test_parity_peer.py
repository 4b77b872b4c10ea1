"""What llama-server answers, as it was recorded, and answers of other shapes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from bench import parity_peer
from bench.errors import BenchError
from bench.parity_peer import ask_tokens, read_completion, read_tokens
from bench.servers import Server

RECORDED: dict[str, Any] = {
    "index": 0,
    "content": "mat",
    "tokens": [630, 1015],
    "id_slot": 0,
    "stop": True,
    "tokens_predicted": 2,
    "tokens_evaluated": 4,
    "generation_settings": {
        "temperature": 0.0,
        "ignore_eos": True,
        "n_probs": 2,
        "logit_bias": [{"bias": None, "token": 1008}, {"bias": 1e6, "token": 70}],
        "post_sampling_probs": False,
    },
    "stop_type": "limit",
    "timings": {"cache_n": 0, "prompt_n": 4, "predicted_n": 2},
    "completion_probabilities": [
        {
            "id": 630,
            "token": "mat",
            "bytes": [109, 97, 116],
            "logprob": -2.2219889163970947,
            "top_logprobs": [
                {
                    "id": 630,
                    "token": "mat",
                    "bytes": [109, 97, 116],
                    "logprob": -2.2219889163970947,
                },
                {"id": 442, "token": "..", "bytes": [46, 46], "logprob": -2.6920011043548584},
            ],
        },
        {
            "id": 1015,
            "token": "",
            "bytes": [],
            "logprob": -2.4500396251678467,
            "top_logprobs": [
                {"id": 1015, "token": "", "bytes": [], "logprob": -2.4500396251678467},
                {"id": 563, "token": " an", "bytes": [32, 97, 110], "logprob": -3.174025297164917},
            ],
        },
    ],
}
"""Of llama.cpp 11434, shortened: fields that are not read are left out, and one bias is added."""

PROMPT = (5, 17, 200, 3)


def _text(**changes: Any) -> bytes:
    return json.dumps(RECORDED | changes).encode()


def test_a_completion_gives_tokens_places_and_what_is_not_chosen() -> None:
    found = read_completion(_text(), PROMPT, 2)
    assert found.tokens == (630, 1015)
    assert found.refused == (1008,), "a bias of -inf is null in JSON"
    assert [place.ids.tolist() for place in found.places] == [[630, 442], [1015, 563]]
    np.testing.assert_array_equal(
        found.places[1].logprobs, [-2.4500396251678467, -3.174025297164917]
    )


def test_places_inside_a_character_may_be_missing() -> None:
    text = _text(completion_probabilities=RECORDED["completion_probabilities"][:1])
    assert len(read_completion(text, PROMPT, 2).places) == 1


def test_places_that_are_missing_are_asked_for_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with a whole letter as its token, which log-probabilities do not know of."""
    asked: list[dict[str, Any]] = []
    steps = RECORDED["completion_probabilities"]

    def post(server: Server, path: str, body: dict[str, Any]) -> bytes:
        if path == "/tokenize":
            return b'{"tokens":[70]}'
        asked.append(body)
        count = len(body["prompt"])
        timings = {"cache_n": count - 1, "prompt_n": 1}
        if body["n_predict"] == 2:
            return _text(completion_probabilities=steps[:1], timings=timings)
        place = steps[count - len(PROMPT)]
        return _text(tokens=[70], completion_probabilities=[place], timings=timings)

    monkeypatch.setattr(parity_peer, "_post", post)
    found = ask_tokens(Server("llama.cpp", 1, 1, {"cache_prompt": False}, 0.0), PROMPT, 2, 9)
    assert (found.tokens, found.refused) == ((630, 1015), (1008,))
    assert [place.ids.tolist() for place in found.places] == [[630, 442], [1015, 563]]
    assert [body["prompt"] for body in asked] == [[*PROMPT], [*PROMPT], [*PROMPT, 630]]
    assert "logit_bias" not in asked[0]
    assert all(body["logit_bias"][0][0] == 70 for body in asked[1:])
    assert all(body["temperature"] == 0 and body["n_probs"] == 9 for body in asked)


def test_a_prompt_of_which_a_part_was_kept_is_still_that_prompt() -> None:
    found = read_completion(_text(timings={"cache_n": 3, "prompt_n": 1}), PROMPT, 2)
    assert found.tokens == (630, 1015)


@pytest.mark.parametrize("prompt", [PROMPT[1:], (1, *PROMPT)])
def test_a_prompt_with_a_token_more_or_less_is_an_error(prompt: tuple[int, ...]) -> None:
    """A BOS that was added would be one."""
    with pytest.raises(BenchError, match="none added"):
        read_completion(_text(), prompt, 2)


@pytest.mark.parametrize("length", [1, 3])
def test_another_number_of_tokens_is_an_error(length: int) -> None:
    with pytest.raises(BenchError, match=f"expected {length} tokens, got 2"):
        read_completion(_text(), PROMPT, length)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b'{"error": {"code": 400}}',
        _text(completion_probabilities=[{"id": 1, "top_logprobs": []}]),
        _text(completion_probabilities=[{"id": 1, "top_logprobs": [{"id": 1, "logprob": None}]}]),
        _text(completion_probabilities=[{"id": 1, "top_probs": [{"id": 1, "prob": 0.5}]}]),
        _text(generation_settings={"logit_bias": [1]}),
        _text(timings=None),
        _text(tokens=[None, 1]),
    ],
    ids=[
        "nothing",
        "a list",
        "an error",
        "no probabilities",
        "none that is a number",
        "probabilities after sampling",
        "a bias of another shape",
        "no timings",
        "no token",
    ],
)
def test_another_shape_is_an_error(text: bytes) -> None:
    with pytest.raises(BenchError, match="expected a completion with log-probabilities"):
        read_completion(text, PROMPT, 2)


def test_a_tokenised_text_gives_its_tokens() -> None:
    assert read_tokens(b'{"tokens":[220,64]}') == [220, 64]


@pytest.mark.parametrize("text", [b"", b"{}", b'{"tokens":[]}', b'{"tokens":["a"]}'])
def test_a_tokenised_text_of_another_shape_is_an_error(text: bytes) -> None:
    with pytest.raises(BenchError, match="token"):
        read_tokens(text)
