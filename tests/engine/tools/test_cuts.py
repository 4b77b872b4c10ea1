"""Any cut of any text gives the same calls (scenarios 8 and 24), and nothing raises."""

import time
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pantheon.engine.tools import Arguments, Dialect, Text, merged, read_tools
from tests.engine.tools.corpus import CORPUS
from tests.engine.tools.parses import (
    JSON,
    MINICPM,
    QWEN,
    TOOLS,
    WRITE_FILE,
    collected,
    events_of,
    function,
    parse,
    pieces_of,
    whole,
)

DIALECTS: tuple[Dialect, ...] = (QWEN, MINICPM, JSON)
IDS = [dialect.name for dialect in DIALECTS]
MIXED = read_tools(
    [
        WRITE_FILE,
        function("ping"),
        function(
            "read", {"filePath": {"type": ["string", "null"]}, "o": {"type": "object"}, "x": {}}
        ),
    ]
)
FRAGMENTS: dict[str, list[str]] = {
    QWEN.name: [
        "<tool_call>",
        "</tool_call>",
        "<function=read>",
        "<function=ping>",
        "<function=no>",
        "</function>",
        "<parameter=filePath>",
        "<parameter=o>",
        "</parameter>",
        "<parameter=",
    ],
    MINICPM.name: [
        '<function name="read">',
        "<function name='ping'>",
        '<function name="no">',
        "</function>",
        '<param name="filePath">',
        "<param name='o'>",
        "</param>",
        "<![CDATA[",
        "]]>",
        "&amp;",
        "&#x41;",
        "<tool_call>",
        "</tool_call>",
        '<function name="ping"/>',
    ],
    JSON.name: [
        "```json\n",
        "```",
        "{",
        "}",
        "[",
        "]",
        ",",
        '"name":"read"',
        '"function":"ping"',
        '"arguments":',
        '{"name":"read","arguments":{',
        '"path":',
        "NaN",
        "...",
        "\\ud83d",
        "<tool_call>",
        "</tool_call>",
        '"filePath":',
        "'x'",
        '"y"',
        ":",
        "True",
    ],
}
SHARED = ["\n", "\n\n", "\r\n", " ", "null", "{'a': 1}", "5", "text", "<", '"', "\\", "é😀"]


def texts(dialect: Dialect) -> st.SearchStrategy[str]:
    """Texts dense in what the dialect's parser looks for."""
    fragment = st.sampled_from([*FRAGMENTS[dialect.name], *SHARED]) | st.text(max_size=3)
    return st.lists(fragment, max_size=16).map("".join)


@pytest.mark.parametrize(("dialect", "text"), CORPUS, ids=range(len(CORPUS)))
def test_every_cut_in_two(dialect: Dialect, text: str) -> None:
    """Scenario 24: all slicings with one cut, and one character at a time."""
    expected = whole(dialect, text)
    for cut in range(len(text) + 1):
        assert merged(events_of(dialect.parser(TOOLS), pieces_of(text, [cut]))) == expected
    assert merged(events_of(dialect.parser(TOOLS), text)) == expected


SHORT = [(dialect, text) for dialect, text in CORPUS if len(text) <= 78]


@pytest.mark.parametrize(("dialect", "text"), SHORT, ids=range(len(SHORT)))
def test_every_cut_in_three(dialect: Dialect, text: str) -> None:
    """Scenario 24: all slicings with two cuts, of the shorter texts."""
    expected = collected(whole(dialect, text))
    for cuts in combinations(range(1, len(text)), 2):
        assert parse(dialect, pieces_of(text, cuts)) == expected


@pytest.mark.parametrize("dialect", DIALECTS, ids=IDS)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_text_in_any_cut(dialect: Dialect, data: st.DataObject) -> None:
    """The same events, valid JSON in every complete call, deltas of whole characters."""
    text = data.draw(texts(dialect))
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=5))
    events = events_of(dialect.parser(MIXED), pieces_of(text, cuts))
    expected = whole(dialect, text, MIXED)
    assert merged(events) == expected
    assert merged(events_of(dialect.parser(MIXED), text)) == expected
    collected(events, MIXED)
    for event in events:
        if isinstance(event, Arguments | Text):
            event.text.encode()


@pytest.mark.parametrize("dialect", DIALECTS, ids=IDS)
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_text_without_calls_is_unchanged(dialect: Dialect, data: st.DataObject) -> None:
    """No character of prose is lost where no tool of that name is offered (scenario 6)."""
    text = data.draw(texts(dialect))
    offered = read_tools([function("other")])
    parsed = parse(dialect, list(text), offered)
    # What ends inside an opening that could yet name the tool is reported and left out.
    if not parsed.errors:
        assert parsed.content == text


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "anyOf", "allOf", "$ref", "enum", "properties", "v", "required"]
            ),
            inner
            | st.sampled_from(["#", "#/properties/v", "string", "integer", ["null", "string"]]),
            max_size=3,
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("dialect", DIALECTS, ids=IDS)
@settings(max_examples=150, deadline=None)
@given(
    parameters=st.booleans()
    | JSON_VALUES.map(lambda value: {"properties": {"v": value}})
    | JSON_VALUES.filter(lambda value: isinstance(value, dict)),
    value=st.sampled_from(["5", "null", "{'a': 1}", '{"a": 1}', "x", "", "[1,"]),
)
def test_any_schema(dialect: Dialect, parameters: Any, value: str) -> None:
    """Scenario 12: no exception for any JSON value in schema position."""
    tools = read_tools([{"function": {"name": "f", "parameters": parameters}}])
    call = {
        QWEN.name: f"<function=f>\n<parameter=v>\n{value}\n</parameter>\n</function>",
        MINICPM.name: f'<function name="f"><param name="v">{value}</param></function>',
        JSON.name: '{"name": "f", "arguments": {"v": 1}}',
    }[dialect.name]
    assert list(parse(dialect, call, tools).arguments) == ["v"]
    parser = dialect.parser(tools)
    parser.push(call[:-14])
    parser.closing_text()


HOSTILE = {
    "value": (QWEN, "<function=write_file><parameter=content>", "x</par", ""),
    "closers": (QWEN, "<function=write_file><parameter=content>", "</parameter>", ""),
    "typed": (QWEN, "<function=write_file><parameter=mode>", "[[1,2] ", ""),
    "prose": (QWEN, "", "<tool_call><function=<", ""),
    "blanks": (QWEN, "<tool_call>", "\n", ""),
    "text": (QWEN, "", "word \n", ""),
    "cdata": (MINICPM, '<function name="write_file"><param name="content"><![CDATA[', "]]<&", ""),
    "entities": (MINICPM, '<function name="write_file"><param name="content">', "&amp&", ""),
    "tags": (MINICPM, "", '<function name="', ""),
    "arguments": (JSON, '{"name": "read", "arguments": {"filePath": "', "ab\\n", ""),
    "first": (JSON, '{"arguments": {"filePath": "', "ab\\n", '"}, "name": "no"}'),
    "braces": (JSON, "", '{"name":', ""),
    "brackets": (JSON, "", "[{", ""),
    "quotes": (JSON, "", "{'\n{\"", ""),
    "key": (JSON, '{"name": "read", "arguments": {"', "k", ""),
    "fences": (JSON, "", "```json\n", ""),
    "nesting": (JSON, "", "{", ""),
    "spaced nesting": (JSON, "", "{ ", ""),
    "nested keys": (JSON, "", '{"name":{', ""),
    "wrappers": (JSON, "", "<tool_call>\n", ""),
    "repeated keys": (JSON, '{"name": "read", "arguments": {"o": {', '"a": {"a": 1}, ', ""),
    "surrogates": (JSON, '{"name": "read", "arguments": {"filePath": "', "\\ud800", ""),
    "retyped": (JSON, '{"name": "write_file", "arguments": {"mode": "', "1 ", ""),
    "carriage returns": (QWEN, "<function=write_file><parameter=content>", "\r\n</par", ""),
    "wrapper ends": (
        QWEN,
        "<function=write_file><parameter=content>",
        "</parameter></tool_call>",
        "",
    ),
}


@pytest.mark.parametrize("size", [7, 10**6], ids=["small cuts", "one piece"])
@pytest.mark.parametrize("name", HOSTILE)
def test_the_work_is_linear(name: str, size: int) -> None:
    """Four times the text takes about four times as long, whatever it is."""
    dialect, start, unit, end = HOSTILE[name]

    def seconds(length: int) -> float:
        text = start + unit * (length // len(unit)) + end
        begun = time.process_time()
        events_of(dialect.parser(TOOLS), (text[at : at + size] for at in range(0, len(text), size)))
        return time.process_time() - begun

    assert seconds(60_000) < 9 * seconds(15_000) + 0.2
