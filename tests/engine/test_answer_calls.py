"""Tool calls in an answer that grows (reference, Tool calling; scenarios 4, 17, 20)."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from pantheon.engine.answer_calls import AnswerCalls
from pantheon.engine.events import ToolCallArguments, ToolCallClosed, ToolCallOpened
from pantheon.engine.tools import Text, ToolCall, dialect_for, read_tools

_TOOLS = read_tools(
    [
        {
            "function": {
                "name": "write",
                "parameters": {
                    "properties": {"path": {"type": "string"}, "mode": {"type": "integer"}},
                    "required": ["path"],
                },
            }
        },
        {"function": {"name": "ping"}},
    ]
)
_OPEN = "<tool_call>\n<function=write>\n<parameter=path>\na.py"
_CLOSE = "\n</parameter>\n</function>\n</tool_call>"
_ANSWER = f"One.\n\n{_OPEN}{_CLOSE}\n<tool_call>\n<function=ping>\n</function>\n</tool_call>\nTwo."


def _calls(compelled: bool = False, kept: list[object] | None = None) -> AnswerCalls:
    def remember(text: str, calls: Sequence[ToolCall], written: str) -> None:
        if kept is not None:
            kept.append((text, [call.name for call in calls], written))

    parser = dialect_for("model", "qwen3", False).parser(_TOOLS)
    return AnswerCalls(parser, compelled=compelled, remember=remember)


def test_each_call_has_an_id_and_its_parts_the_number() -> None:
    calls = _calls()
    deltas = calls.push(_ANSWER) + calls.finish(cut=False)
    opened = [delta for delta in deltas if isinstance(delta, ToolCallOpened)]
    assert [(one.index, one.name) for one in opened] == [(0, "write"), (1, "ping")]
    assert [(call.id, call.name) for call in calls.calls] == [(one.id, one.name) for one in opened]
    assert len({one.id for one in opened}) == 2
    assert [delta.index for delta in deltas if isinstance(delta, ToolCallClosed)] == [0, 1]
    assert [json.loads(call.arguments) for call in calls.calls] == [{"path": "a.py"}, {}]
    assert calls.error is None


@given(st.lists(st.integers(0, len(_ANSWER)), max_size=8))
def test_text_tells_where_it_stood_however_it_was_cut(cuts: list[int]) -> None:
    """What log-probabilities are found by."""
    calls, places = _calls(), sorted({0, *cuts, len(_ANSWER)})
    deltas = []
    for start, end in zip(places, [*places[1:], len(_ANSWER)], strict=True):
        deltas += calls.push(_ANSWER[start:end])
    deltas += calls.finish(cut=False)
    texts = [delta for delta in deltas if isinstance(delta, Text)]
    for text in texts:
        visible = text.text.strip()
        assert _ANSWER[text.end - len(text.text.lstrip()) : text.end] == text.text.lstrip()
        assert visible in ("One.", "Two.") or visible in "One.Two."
    assert "".join(text.text for text in texts) == "One.\n\nTwo."


def test_a_compelled_call_that_can_be_closed_is_closed_at_the_end() -> None:
    """Reference: the serve appends the closing text."""
    calls = _calls(compelled=True)
    calls.push(_OPEN)
    assert calls.closing_text is not None
    deltas = calls.finish(cut=False)
    assert [call.name for call in calls.calls] == ["write"]
    assert isinstance(deltas[-1], ToolCallClosed)
    assert calls.error is None


def test_a_limit_closes_nothing() -> None:
    calls = _calls(compelled=True)
    calls.push(_OPEN)
    calls.finish(cut=True)
    assert calls.calls == []
    assert calls.error is not None and calls.error.function == "write"


def test_any_other_call_is_left_out_and_reported() -> None:
    calls = _calls()
    deltas = calls.push(_OPEN) + calls.finish(cut=False)
    assert calls.calls == []
    assert calls.error is not None and calls.error.parameter == "path"
    assert not any(isinstance(delta, ToolCallClosed) for delta in deltas)
    assert any(isinstance(delta, ToolCallArguments) for delta in deltas), "they stream as they come"


def test_a_compelled_answer_may_not_end_before_a_call_that_can_be_closed() -> None:
    calls = _calls(compelled=True)
    seen = []
    for text in ("", "<tool_call>\n", "<function=write>\n", "<parameter=path>\n", "a"):
        calls.push(text)
        seen.append(calls.closing_text is not None)
    assert seen == [False, False, False, True, True]


def test_a_turn_is_kept_as_it_was_written_with_the_closing_text() -> None:
    kept: list[object] = []
    calls = _calls(compelled=True, kept=kept)
    calls.push(f"One. {_OPEN}")
    calls.finish(cut=False)
    assert kept == [("One.", ["write"], f"One. {_OPEN}{_CLOSE}")]
