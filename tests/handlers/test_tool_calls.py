"""Tool calls in both forms of an answer (reference, Tool calling, `tool_calls`, delta fields)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import UNSET

from pantheon.engine import CompletionRequest, InvalidRequest
from pantheon.engine.testing import Script, tokens_of
from pantheon.generated.models import ChatCompletionParams
from pantheon.generated.operations import SseSentinel
from pantheon.generated.parsing import to_model
from pantheon.handlers.chat_request import read_chat_request
from tests.handlers.calls import create, engine_that, stream

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "write",
            "parameters": {
                "type": "object",
                "properties": {"path": {"type": "string"}, "mode": {"type": "integer"}},
                "required": ["path"],
            },
        },
    },
    {"type": "function", "function": {"name": "ping"}},
]
_WRITE = (
    "<tool_call>\n<function=write>\n<parameter=path>\na b\n</parameter>\n"
    "<parameter=mode>\n420\n</parameter>\n</function>\n</tool_call>"
)
_PING = "<tool_call>\n<function=ping>\n</function>\n</tool_call>"
_CUT = "<tool_call>\n<function=write>\n<parameter=path>\nhalf"


def _script(text: str, **fields: Any) -> Script:
    return Script(tokens=tokens_of(text), **fields)


def _choice(text: str, **fields: Any) -> Any:
    script = fields.pop("script", None) or _script(text)
    return create(engine_that(script), tools=TOOLS, **fields).body.choices[0]


def _chunks(text: str, **fields: Any) -> list[Any]:
    script = fields.pop("script", None) or _script(text)
    events = list(stream(engine_that(script), tools=TOOLS, **fields))
    assert events.pop() is SseSentinel.DONE
    return events


def test_a_pure_call_has_no_content() -> None:
    choice = _choice(_WRITE)
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    (call,) = choice.message.tool_calls
    assert (call.type, call.function.name) == ("function", "write")
    assert json.loads(call.function.arguments) == {"path": "a b", "mode": 420}
    assert choice.tool_call_error is UNSET


def test_text_before_calls_is_content() -> None:
    choice = _choice(f"I write.\n\n{_WRITE}\n{_PING}")
    assert choice.message.content == "I write."
    assert [call.function.name for call in choice.message.tool_calls] == ["write", "ping"]
    assert choice.message.tool_calls[1].function.arguments == "{}"
    assert len({call.id for call in choice.message.tool_calls}) == 2


def test_ids_are_not_used_again_in_another_turn() -> None:
    first, second = (_choice(_PING).message.tool_calls[0].id for _ in range(2))
    assert first != second


def test_the_stream_opens_a_call_and_then_brings_its_arguments() -> None:
    """Reference, delta fields 4 and 5; scenarios 17, 18, 20 to 22."""
    chunks = _chunks(f"I write. {_WRITE} {_PING}")
    assert [chunk.choices[0].finish_reason for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1].choices[0].finish_reason == "tool_calls"
    parts = [
        chunk.choices[0].delta.tool_calls
        for chunk in chunks
        if chunk.choices[0].delta.tool_calls is not UNSET
    ]
    arguments = {0: "", 1: ""}
    opened = []
    for (part,) in parts:
        if part.id is not UNSET:
            assert (part.type, part.function.arguments) == ("function", "")
            assert part.index == len(opened)
            opened.append(part.function.name)
        else:
            assert (part.type, part.function.name) == (UNSET, UNSET)
            assert part.index == len(opened) - 1
            arguments[part.index] += part.function.arguments
    assert opened == ["write", "ping"]
    assert json.loads(arguments[0]) == {"path": "a b", "mode": 420}
    assert arguments[1] == "{}"
    content = [chunk.choices[0].delta.content for chunk in chunks]
    assert "".join(text for text in content if text is not UNSET) == "I write."


@pytest.mark.parametrize("text", [_CUT, "<tool_call>\n<function=wri"])
def test_an_unfinished_call_is_reported_and_is_no_call(text: str) -> None:
    """Scenario 4: it is left out of `tool_calls` and named in `tool_call_error`."""
    choice = _choice(text)
    assert (choice.finish_reason, choice.message.tool_calls) == ("stop", UNSET)
    assert choice.tool_call_error.code == "unfinished_call"
    assert choice.tool_call_error.message
    closing = _chunks(text)[-1].choices[0]
    assert (closing.finish_reason, closing.tool_call_error) == ("stop", choice.tool_call_error)
    if text is _CUT:
        assert choice.tool_call_error.function == "write"
        assert choice.tool_call_error.parameter == "path"


def test_a_limit_inside_a_call_is_the_reason() -> None:
    limit = len(tokens_of(_CUT))
    choice = _choice("", script=_script(_WRITE), max_tokens=limit)
    assert (choice.finish_reason, choice.message.tool_calls) == ("length", UNSET)
    assert choice.tool_call_error.function == "write"


def test_a_streamed_call_that_stays_unfinished_is_the_only_difference() -> None:
    """Its deltas stand, so the stream must not say that the calls are to be made."""
    text = f"{_PING}\n{_CUT}"
    assert _choice(text).finish_reason == "tool_calls"
    assert [call.function.name for call in _choice(text).message.tool_calls] == ["ping"]
    closing = _chunks(text)[-1].choices[0]
    assert closing.finish_reason == "stop"
    assert closing.tool_call_error.function == "write"


def test_a_loop_outranks_calls() -> None:
    script = _script(_PING, ends_as="repetition_loop")
    assert _choice("", script=script).finish_reason == "repetition_loop"
    assert _chunks("", script=script)[-1].choices[0].finish_reason == "repetition_loop"


def test_without_tools_a_call_is_text() -> None:
    """Reference, `tool_choice`: `none` disables tools."""
    for fields in ({}, {"tools": []}, {"tools": TOOLS, "tool_choice": "none"}):
        message = create(engine_that(_script(_PING)), **fields).body.choices[0].message
        assert (message.content, message.tool_calls) == (_PING, UNSET)


def _request(**fields: Any) -> CompletionRequest:
    body = {"messages": [{"role": "user", "content": "hi"}], **fields}
    params = to_model(body, ChatCompletionParams)
    return read_chat_request(params, False, enforce_schema=False).completions[0]


def test_the_choice_is_what_the_engine_is_asked() -> None:
    named = {"type": "function", "function": {"name": "ping"}}
    for choice, expected in (
        ("auto", (False, None)),
        ("required", (True, None)),
        (named, (False, "ping")),
        ({}, (False, None)),
    ):
        use = _request(tools=TOOLS, tool_choice=choice).tool_use
        assert use is not None
        assert (use.required, use.name) == expected
        assert [tool.name for tool in use.tools] == ["write", "ping"]
        assert use.tools[0].definition == TOOLS[0]
    assert _request(tools=TOOLS, tool_choice="none").tool_use is None
    assert _request(tool_choice="required").tool_use is None


def test_a_tool_that_cannot_be_one_is_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(70):
        deep = {"items": deep}
    tool = {"type": "function", "function": {"name": "a", "parameters": deep}}
    with pytest.raises(InvalidRequest, match=r"tools\[0\]"):
        _request(tools=[tool])


def test_calls_and_results_of_the_history_reach_the_engine() -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "ping", "arguments": "{}"}}
    given = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "pong"},
    ]
    assistant, result = _request(messages=given).messages
    assert assistant == {"role": "assistant", "content": "", "tool_calls": [call]}
    assert result == {"role": "tool", "content": "pong"}
