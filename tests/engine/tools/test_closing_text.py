"""What completes a begun call (reference, Tool calling: the end token of a "required" turn)."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pantheon.engine.tools import CallClosed, Dialect, read_tools
from tests.engine.tools.corpus import CORPUS
from tests.engine.tools.parses import JSON, MINICPM, QWEN, TOOLS, collected, function
from tests.engine.tools.test_cuts import DIALECTS, IDS, MIXED, texts

TYPED = read_tools(
    [
        function("ping"),
        function(
            "f",
            {
                "s": {"type": "string"},
                "n": {"type": "integer"},
                "o": {"type": "object"},
                "e": {"enum": ["ab", "abc"]},
            },
            required=["s"],
        ),
    ]
)


def closed(dialect: Dialect, text: str) -> Any:
    """Arguments of the call after its closing text, or None where there is none."""
    parser = dialect.parser(TYPED)
    events = parser.push(text)
    closing = parser.closing_text()
    if closing is None:
        return None
    events += parser.push(closing) + parser.finish()
    return collected(events, TYPED).arguments


OPEN = "<tool_call>\n<function=f>\n"
STRING = OPEN + "<parameter=s>\n"
DONE = STRING + "x\n</parameter>\n"
PARAM = '<function name="f"><param name="s">'
PARAM_DONE = PARAM + "x</param>"
OBJECT = '```json\n{"name": "f", "arguments": '


@pytest.mark.parametrize(
    ("dialect", "text", "arguments"),
    [
        # Only the opener.
        (QWEN, "<tool_call>\n<function=ping>", {}),
        (QWEN, "<function=ping>\n</func", {}),
        (QWEN, "<function=ping>\n<par", None),
        (QWEN, "<tool_call>\n<function=pin", None),
        (QWEN, "<tool_call>", None),
        (QWEN, OPEN, None),
        # A string may end anywhere.
        (QWEN, STRING, {"s": ""}),
        (QWEN, STRING + "ab", {"s": "ab"}),
        (QWEN, STRING + "ab\n", {"s": "ab"}),
        (QWEN, STRING + "ab\n</para", {"s": "ab"}),
        (QWEN, STRING + "ab</para", {"s": "ab"}),
        (QWEN, STRING + "ab\n\n", {"s": "ab\n"}),
        # Behind an argument.
        (QWEN, DONE, {"s": "x"}),
        (QWEN, DONE.rstrip(), {"s": "x"}),
        (QWEN, DONE + "</functi", {"s": "x"}),
        (QWEN, DONE + "</function>\n</tool", {"s": "x"}),
        (QWEN, DONE + "<parameter=", None),
        (QWEN, DONE + "<parameter=n", None),
        # Values of other types must be complete.
        (QWEN, DONE + "<parameter=n>\n", None),
        (QWEN, DONE + "<parameter=n>\n-", None),
        (QWEN, DONE + "<parameter=n>\n-1", {"s": "x", "n": -1}),
        (QWEN, DONE + "<parameter=n>\none\n</parameter>", None),
        (QWEN, DONE + '<parameter=o>\n{"a": 1', None),
        (QWEN, DONE + '<parameter=o>\n{"a": 1}', {"s": "x", "o": {"a": 1}}),
        (QWEN, DONE + "<parameter=e>\na", None),
        (QWEN, DONE + "<parameter=e>\nab", {"s": "x", "e": "ab"}),
        (QWEN, DONE + "<parameter=s>\ntwice", {"s": "x"}),
        # Required arguments must be there.
        (QWEN, OPEN + "<parameter=n>\n1", None),
        (MINICPM, '<function name="ping">', {}),
        (MINICPM, '<function name="f">', None),
        (MINICPM, PARAM, {"s": ""}),
        (MINICPM, PARAM + "a</pa", {"s": "a"}),
        (MINICPM, PARAM + "a<![CD", {"s": "a<![CD"}),
        (MINICPM, PARAM + "a&am", {"s": "a&am"}),
        (MINICPM, PARAM + "<![CDATA[a</param>", {"s": "a</param>"}),
        (MINICPM, PARAM + "<![CDATA[a]]", {"s": "a]]"}),
        (MINICPM, PARAM_DONE, {"s": "x"}),
        (MINICPM, PARAM_DONE + "</function", {"s": "x"}),
        (MINICPM, PARAM_DONE + "<param name=", None),
        (MINICPM, PARAM_DONE + '<param name="n">1', {"s": "x", "n": 1}),
        (MINICPM, PARAM_DONE + '<param name="n">x', None),
        (JSON, OBJECT, None),
        (JSON, OBJECT + "{", None),
        (JSON, OBJECT + '{"s": "x', {"s": "x"}),
        (JSON, OBJECT + '{"s": "x\\', None),
        (JSON, OBJECT + '{"s": "x", ', {"s": "x"}),
        (JSON, OBJECT + '{"s": "x", "n', None),
        (JSON, OBJECT + '{"s": "x", "n": 1', {"s": "x", "n": 1}),
        (JSON, OBJECT + '{"s": "x", "o": {"a": [', {"s": "x", "o": {"a": []}}),
        (JSON, OBJECT + '{"s": "x", "o": {"a"', None),
        (JSON, OBJECT + '{"s": "x"}', {"s": "x"}),
        (JSON, "[" + OBJECT[8:] + '{"s": "x"}', {"s": "x"}),
        (JSON, OBJECT + '{"n": 1', None),
    ],
)
def test_where_a_call_can_be_closed(dialect: Dialect, text: str, arguments: Any) -> None:
    """Reference: allowed only where the call can still be closed, the closing text appended."""
    assert closed(dialect, "Well.\n" + text) == arguments


@pytest.mark.parametrize("dialect", DIALECTS, ids=IDS)
def test_nothing_is_open_in_prose_and_behind_a_call(dialect: Dialect) -> None:
    """Nothing to close."""
    (turn,) = {
        QWEN.name: ["<function=ping>\n</function>"],
        MINICPM.name: ['<function name="ping"></function>'],
        JSON.name: ['{"name": "ping", "arguments": {}}'],
    }[dialect.name]
    parser = dialect.parser(TYPED)
    for text in ("", "prose ", "more", f"\n{turn}"):
        parser.push(text)
        assert parser.closing_text() == "" and not parser.inside_call


def check(dialect: Dialect, text: str, tools: Any) -> None:
    """After any beginning, the closing text completes what is open."""
    for end in range(len(text) + 1):
        parser = dialect.parser(tools)
        events = parser.push(text[:end])
        inside, closing = parser.inside_call, parser.closing_text()
        if closing is None or not (inside or closing):
            continue
        events += parser.push(closing) + parser.finish()
        parsed = collected(events, tools)
        assert not any(error.code == "unfinished_call" for error in parsed.errors), (text, end)
        assert isinstance([e for e in events if not hasattr(e, "text")][-1], CallClosed)


@pytest.mark.parametrize(("dialect", "text"), CORPUS, ids=range(len(CORPUS)))
def test_every_beginning_of_the_corpus(dialect: Dialect, text: str) -> None:
    """The promise of closing_text, at each character."""
    check(dialect, text, TOOLS)


@pytest.mark.parametrize("dialect", DIALECTS, ids=IDS)
@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_every_beginning_of_any_text(dialect: Dialect, data: st.DataObject) -> None:
    """The same for texts dense in marks."""
    check(dialect, data.draw(texts(dialect)), MIXED)


@settings(max_examples=100, deadline=None)
@given(
    value=st.recursive(
        st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=6,
    ),
    data=st.data(),
)
def test_json_arguments_close_to_valid_json(value: Any, data: st.DataObject) -> None:
    """At any place inside strict JSON."""
    text = json.dumps({"name": "ping", "arguments": {"v": value}})
    end = data.draw(st.integers(0, len(text)))
    check(JSON, text[:end], TYPED)
