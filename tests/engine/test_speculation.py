"""Speculation from the prompt over a whole model: on or off, a request has the same answer."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from pantheon.engine.config import EngineConfig, ModelOptions, Speculation, ToolGrammar
from pantheon.engine.events import (
    Event,
    Failed,
    Finished,
    TextDelta,
    ToolCallArguments,
    ToolCallOpened,
)
from pantheon.engine.instance import ModelInstance
from pantheon.engine.loading import load_instance
from pantheon.engine.requests import CompletionRequest, JsonFormat, Sampling, ToolUse
from pantheon.engine.tools import read_tools
from tests.golden import golden_file

_WAIT_S = 60.0
_CODE = "for item in items:\n    if item.name == name:\n        return item.value\n"
_MESSAGES = (
    {"role": "user", "content": f"Repeat this:\n{_CODE}{_CODE}{_CODE}"},
    {"role": "assistant", "content": _CODE},
    {"role": "user", "content": "Once more."},
)
_TOOLS = read_tools(
    [
        {
            "type": "function",
            "function": {
                "name": name,
                "parameters": {
                    "type": "object",
                    "properties": {
                        "values": {"type": "array", "items": {"type": "integer"}, "maxItems": 20},
                        "mode": {"enum": ["read", "write", "append"]},
                    },
                    "required": ["values", "mode"],
                },
            },
        }
        for name in ("open_file", "close_file")
    ]
)
# Among few tokens there is much that comes again.
_FEW = tuple((token, 100.0) for token in range(300, 304))
_REQUESTS: dict[str, dict[str, Any]] = {
    "greedy": {"sampling": Sampling(temperature=0.0)},
    "sampled": {"sampling": Sampling(temperature=0.7, seed=5, logit_bias=_FEW)},
    "penalties": {
        "sampling": Sampling(
            temperature=0.5,
            seed=4,
            presence_penalty=0.8,
            frequency_penalty=0.01,
            logit_bias=_FEW,
        )
    },
    "stop": {"sampling": Sampling(temperature=0.0), "stop": ("ab",)},
    "json": {"sampling": Sampling(temperature=0.0), "response_format": JsonFormat(None)},
    "call": {
        "sampling": Sampling(temperature=1.0, seed=3),
        "tool_use": ToolUse(_TOOLS, required=True),
    },
    "free with tools": {
        "sampling": Sampling(temperature=0.0),
        "tool_use": ToolUse(_TOOLS),
    },
}


def _load(speculation: Speculation) -> ModelInstance:
    options = ModelOptions(golden_file("models/llama-smollm-f32.gguf"), max_sessions=2)
    config = EngineConfig(
        models=(),
        backend="cpu",
        build="unknown",
        tool_grammar=ToolGrammar.ALWAYS,
        speculation=speculation,
    )
    return load_instance(options, config)


@pytest.fixture(scope="module")
def models() -> Iterator[tuple[ModelInstance, ModelInstance]]:
    # Where drafts pay is a matter of measured times (tests/engine/test_draft_budget.py).
    loaded = (_load(Speculation.NEVER), _load(Speculation.ALWAYS))
    yield loaded
    for model in loaded:
        model.close()


def _events(model: ModelInstance, fields: dict[str, Any]) -> list[Event]:
    request = CompletionRequest(None, _MESSAGES, max_tokens=150, top_logprobs=3, **fields)
    completion = model.submit(request)
    assert completion.wait_admitted(_WAIT_S)
    events: list[Event] = []
    while not events or not isinstance(events[-1], Finished):
        event = completion.next_event(_WAIT_S)
        assert event is not None and not isinstance(event, Failed)
        events.append(event)
    return events


def _told(events: list[Event]) -> list[object]:
    """What does not differ from run to run: the ids of calls do."""
    return [
        (event.index, event.name) if isinstance(event, ToolCallOpened) else event
        for event in events
    ]


@pytest.mark.parametrize("kind", _REQUESTS)
def test_the_answer_is_that_of_plain_decoding(
    models: tuple[ModelInstance, ModelInstance],
    kind: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    plain, drafted = models
    expected = _events(plain, _REQUESTS[kind])
    assert any(isinstance(event, TextDelta | ToolCallArguments) for event in expected)
    with caplog.at_level(logging.INFO, "pantheon.engine.step_loop"):
        assert _told(_events(drafted, _REQUESTS[kind])) == _told(expected)
    lines = [record.getMessage() for record in caplog.records]
    assert any("drafted tokens were right" in line for line in lines) or kind == "stop", lines
