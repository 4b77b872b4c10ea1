"""A whole model with a SentencePiece vocabulary: phi3 of tests/data/models."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from pantheon.engine.config import EngineConfig, ModelOptions
from pantheon.engine.events import Failed, Finished, TextDelta
from pantheon.engine.instance import ModelInstance
from pantheon.engine.loading import load_instance
from pantheon.engine.requests import CompletionRequest, JsonFormat, Sampling
from tests.engine.tokenizer.vocabularies import golden_tokenizer
from tests.golden import golden_file

_WAIT_S = 60.0
_VOCABULARY = golden_tokenizer("tiny-phi3").vocabulary
_QUESTION = {"role": "user", "content": "spell the word"}


@pytest.fixture(scope="module")
def model() -> Iterator[ModelInstance]:
    options = ModelOptions(golden_file("models/phi3-f32.gguf"), name="tiny", max_sessions=2)
    loaded = load_instance(options, EngineConfig(models=(), backend="cpu", build="unknown"))
    yield loaded
    loaded.close()


def _ask(
    model: ModelInstance, messages: list[Mapping[str, str]], **changes: Any
) -> tuple[list[TextDelta], Finished]:
    completion = model.submit(CompletionRequest(None, tuple(messages), **changes))
    assert completion.wait_admitted(_WAIT_S)
    deltas = []
    while True:
        event = completion.next_event(_WAIT_S)
        assert event is not None and not isinstance(event, Failed)
        if isinstance(event, TextDelta):
            deltas.append(event)
        if isinstance(event, Finished):
            return deltas, event


@pytest.mark.parametrize("pieces", [["\u2581the"], ["t", "h", "e"]])
def test_an_answer_is_found_again_however_it_begins(
    model: ModelInstance, pieces: list[str]
) -> None:
    """With the space that its text is encoded with, or without one; its bytes are those of its
    log-probabilities (reference, `cached_tokens`, `logprobs`)."""
    tokens = [_VOCABULARY.tokens.index(piece) for piece in pieces]
    sampling = Sampling(temperature=5.0, seed=3, logit_bias=tuple((t, 100.0) for t in tokens))
    session = "".join(pieces)
    deltas, first = _ask(
        model, [_QUESTION], session_id=session, sampling=sampling, max_tokens=9, top_logprobs=0
    )
    text = "".join(delta.text for delta in deltas)
    entries = b"".join(entry.data for delta in deltas for entry in delta.logprobs)
    assert entries == text.encode()
    answer = {"role": "assistant", "content": text}
    _, second = _ask(
        model, [_QUESTION, answer, _QUESTION], session_id=session, sampling=sampling, max_tokens=2
    )
    held = first.usage.prompt_tokens + first.usage.completion_tokens - 1
    assert second.usage.cached_tokens == held
    model.release_session(session)


def test_a_json_answer_begins_with_its_brace(model: ModelInstance) -> None:
    """Reference, `response_format`: the content is the object alone, without a space before it."""
    schema = {
        "type": "object",
        "properties": {"a": {"enum": ["x", "é"]}},
        "required": ["a"],
        "additionalProperties": False,
    }
    for seed in range(8):
        deltas, _ = _ask(
            model,
            [_QUESTION],
            response_format=JsonFormat(schema),
            sampling=Sampling(temperature=2.0, seed=seed),
            max_tokens=100,
        )
        text = "".join(delta.text for delta in deltas)
        assert json.loads(text)["a"] in ("x", "é")
        assert text.startswith("{")
