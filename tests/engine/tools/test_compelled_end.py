"""A compelled answer that is cut (reference, Tool calling: a call begun is left out, reported)."""

import pytest

from pantheon.engine.answer_calls import AnswerCalls
from pantheon.engine.tools import Dialect, Text
from tests.engine.tools.parses import JSON, MINICPM, QWEN, TOOLS

CALLS = [
    (JSON, '```json\n{ "name":\n "read", "arguments": {"filePath": "x"}}\n```'),
    (JSON, '{"function": "read", "arguments": {"filePath": "x"}}'),
    (JSON, '[{"arguments": {"filePath": "x"}, "name": "read"}]'),
    (QWEN, "<tool_call>\n<function=read>\n<parameter=filePath>\nx\n</parameter>\n</function>"),
    (QWEN, "<function=read>\n<parameter=filePath>\nx\n</parameter>\n</function>"),
    (MINICPM, '<function name="read"><param name="filePath">x</param></function>'),
]


@pytest.mark.parametrize(("dialect", "text"), CALLS, ids=range(len(CALLS)))
def test_what_was_begun_is_left_out_and_reported(dialect: Dialect, text: str) -> None:
    """Wherever the limit is, nothing of the call becomes content."""
    for end in range(1, len(text) + 1):
        calls = AnswerCalls(dialect.parser(TOOLS), compelled=True)
        found = [piece for at in range(end) for piece in calls.push(text[at])]
        found += calls.finish(cut=True)
        assert not any(isinstance(piece, Text) for piece in found), text[:end]
        if calls.calls:
            assert calls.error is None
        else:
            assert calls.error is not None and calls.error.code == "unfinished_call", text[:end]


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        (QWEN, "<tool_call>\n<function=ping>\n</function>\n</tool_call>"),
        (MINICPM, '<tool_call>\n<function name="ping"></function>\n</tool_call>'),
        (JSON, '<tool_call>\n[{"name": "ping", "arguments": {}}]\n</tool_call>'),
        (JSON, '```json\n{"name": "ping", "arguments": {}}\n```'),
    ],
    ids=range(4),
)
@pytest.mark.parametrize("compelled", [False, True])
def test_a_closing_tag_that_is_cut_belongs_to_the_call(
    dialect: Dialect, text: str, compelled: bool
) -> None:
    """Scenario 24: no piece of a marker in the content."""
    for end in range(len(text) - 12, len(text) + 1):
        calls = AnswerCalls(dialect.parser(TOOLS), compelled=compelled)
        found = [*calls.push(text[:end]), *calls.finish(cut=True)]
        if calls.calls:
            assert calls.error is None and not any(isinstance(piece, Text) for piece in found)


@pytest.mark.parametrize("dialect", [JSON, QWEN, MINICPM], ids=lambda dialect: dialect.name)
def test_text_before_a_call_stays_content(dialect: Dialect) -> None:
    """Only what could have become a call is left out."""
    calls = AnswerCalls(dialect.parser(TOOLS), compelled=True)
    found = [*calls.push("Let me look. "), *calls.finish(cut=True)]
    assert "".join(piece.text for piece in found if isinstance(piece, Text)) == "Let me look. "
    assert calls.error is None
