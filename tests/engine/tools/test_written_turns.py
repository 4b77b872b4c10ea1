"""Turns with calls are written again as the model wrote them (reference, `messages`)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pantheon.engine.tools import ToolCall, WrittenTurns

_CALL = ToolCall("call_1", "read", '{"path": "a", "n": 1.0}')
_WRITTEN = "Look.\n<function=read> odd spacing </function>"


def _sent(call: ToolCall = _CALL, **changes: Any) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments, **changes.pop("function", {})}
    return {"id": call.id, "type": "function", "function": function, **changes}


def _turns() -> WrittenTurns:
    turns = WrittenTurns()
    turns.remember("Look.", [_CALL], _WRITTEN)
    return turns


def test_an_unchanged_turn_is_what_the_model_wrote() -> None:
    assert _turns().text_of("Look.", [_sent()]) == _WRITTEN


def test_arguments_may_be_serialised_again() -> None:
    compact = json.dumps(json.loads(_CALL.arguments), separators=(",", ":"))
    for arguments in (compact, json.loads(_CALL.arguments)):
        assert _turns().text_of("Look.", [_sent(function={"arguments": arguments})]) == _WRITTEN


@pytest.mark.parametrize(
    ("content", "calls"),
    [
        ("Look!", [_sent()]),
        ("Look.", [_sent(id="call_2")]),
        ("Look.", [_sent(function={"name": "write"})]),
        ("Look.", [_sent(function={"arguments": '{"path": "b", "n": 1.0}'})]),
        ("Look.", [_sent(function={"arguments": "{"})]),
        ("Look.", [_sent(function={"arguments": None})]),
        ("Look.", [{"id": "call_1", "function": "read"}]),
        ("Look.", [_sent(), _sent()]),
        ("Look.", [{"id": ["call_1"]}]),
        ("Look.", ["call_1"]),
        ("Look.", []),
        ("Look.", None),
        ("Look.", "call_1"),
    ],
)
def test_a_changed_turn_is_not_taken_for_it(content: str, calls: object) -> None:
    assert _turns().text_of(content, calls) is None


def test_the_turns_used_longest_ago_are_forgotten() -> None:
    turns = WrittenTurns(most_characters=30)
    calls = [ToolCall(f"call_{number}", "a", "{}") for number in range(4)]
    for call in calls[:3]:
        turns.remember("", [call], "x" * 10)
    assert turns.text_of("", [_sent(calls[0])]) == "x" * 10
    turns.remember("", [calls[3]], "y" * 10)
    assert [turns.text_of("", [_sent(call)]) for call in calls] == [
        "x" * 10,
        None,
        "x" * 10,
        "y" * 10,
    ]
    turns.remember("", [calls[1]], "z" * 31)
    assert turns.text_of("", [_sent(calls[1])]) is None, "one that is too long is not kept"


def test_an_answer_without_calls_is_not_kept() -> None:
    turns = WrittenTurns()
    turns.remember("text", [], "text")
    assert turns.text_of("text", []) is None
