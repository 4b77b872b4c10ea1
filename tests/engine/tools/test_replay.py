"""Calls of earlier turns in the prompt (scenario 38), and read back by the parsers."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pantheon.engine.tools import Dialect, read_tools, render_conversation
from tests.engine.tools.parses import JSON, MINICPM, QWEN, function, parse
from tests.engine.tools.test_rendering import DIALECTS, JSON_VALUES

ODD_ARGUMENTS = [
    ("{'city': 'Oslo'}", {"arguments": "{'city': 'Oslo'}"}),
    ({"city": "Oslo"}, {"city": "Oslo"}),
    ('{"city":"Oslo"}', {"city": "Oslo"}),
    (' {"city" : "Os\\nlo" } ', {"city": "Os\nlo"}),
    ("", {}),
    (" ", {}),
    ("null", {}),
    (None, {}),
    ("{}", {}),
    ("[1]", {"arguments": "[1]"}),
    ([1], {"arguments": "[1]"}),
    ("7", {"arguments": "7"}),
    ('{"a": NaN}', {"arguments": '{"a": NaN}'}),
    ('{"a": 1', {"arguments": '{"a": 1'}),
    ('{"a": "1", "a": 2}', {"a": "1"}),
    ('{"a": "\\ud800"}', {"a": "\ufffd"}),
    ({"a": "x\ud800", "\udc00": 1}, {"a": "x\ufffd", "\ufffd": "1"}),
    ('{"a": oops \ud800', {"arguments": '{"a": oops \ufffd'}),
    ("[" * 100_000, {"arguments": "[" * 100_000}),
    ('{"a":' * 100_000, {"arguments": '{"a":' * 100_000}),
]


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: type(dialect).__name__)
@pytest.mark.parametrize(("arguments", "expected"), ODD_ARGUMENTS, ids=range(len(ODD_ARGUMENTS)))
def test_history_with_any_arguments_is_rendered(
    arguments: Any, expected: dict[str, str], dialect: Dialect
) -> None:
    """Scenario 38: invalid JSON, an object, nothing; what cannot be read is one raw value."""
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    (turn,) = render_conversation([{"role": "assistant", "tool_calls": [call]}], (), dialect)
    turn["content"].encode()
    tools = read_tools([function("f", {"arguments": {"type": "string"}})])
    read = parse(dialect, turn["content"], tools).arguments
    assert {
        key: value if isinstance(value, str) else json.dumps(value) for key, value in read.items()
    } == expected


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: type(dialect).__name__)
@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ('{"o":{"a":1,"a":2}}', {"a": 1}),
        ('{"o": {"\\udc00": ["\\ud83d\\ude00\\ud83d"]}}', {"\ufffd": ["😀\ufffd"]}),
        ('{"o":{"\\udc00":["\\ud83d\\ude00\\ud83d"]}}', {"\ufffd": ["😀\ufffd"]}),
    ],
)
def test_what_no_reader_agrees_on_is_rendered_with_one_meaning(
    written: str, expected: Any, dialect: Dialect
) -> None:
    """Repeated keys and half characters, which no tokenizer encodes, below the top."""
    calls = [{"function": {"name": "f", "arguments": written}}]
    (turn,) = render_conversation([{"role": "assistant", "tool_calls": calls}], (), dialect)
    turn["content"].encode()
    tools = read_tools([function("f", {"o": {"type": "object"}})])
    assert parse(dialect, turn["content"], tools).arguments == {"o": expected}


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: type(dialect).__name__)
@settings(max_examples=60, deadline=None)
@given(calls=JSON_VALUES | st.lists(st.fixed_dictionaries({"function": JSON_VALUES}) | JSON_VALUES))
def test_no_history_raises(dialect: Dialect, calls: Any) -> None:
    """Scenario 38: never 5xx."""
    messages = [{"role": "assistant", "content": 5, "tool_calls": calls}, {"role": "tool"}]
    turn, results = render_conversation(messages, (), dialect)
    assert isinstance(turn["content"], str) and isinstance(results["content"], str)


TYPED = read_tools(
    [
        function(
            "f",
            {
                "s": {"type": "string"},
                "n": {"type": "number"},
                "b": {"type": "boolean"},
                "z": {"type": "null"},
                "o": {"type": "object"},
                "a": {"type": "array"},
            },
        )
    ]
)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: type(dialect).__name__)
@settings(max_examples=100, deadline=None)
@given(
    arguments=st.fixed_dictionaries(
        {},
        optional={
            "s": st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]) | st.just("\n")),
            "n": st.integers() | st.floats(allow_nan=False, allow_infinity=False),
            "b": st.booleans(),
            "z": st.none(),
            "o": st.dictionaries(st.text("ab", max_size=2), st.text("<é\"'x", max_size=4)),
            "a": st.lists(st.booleans() | st.none() | st.integers(), max_size=3),
        },
    ),
    content=st.sampled_from(["", "Let me look.", "two\nlines "]),
    as_text=st.booleans(),
)
def test_what_is_rendered_is_parsed_back(
    dialect: Dialect, arguments: dict[str, Any], content: str, as_text: bool
) -> None:
    """The replayed turn is a call with the same arguments and text."""
    sent = json.dumps(arguments) if as_text else arguments
    calls = [{"function": {"name": "f", "arguments": sent}}] * 2
    message = {"role": "assistant", "content": content, "tool_calls": calls}
    (turn,) = render_conversation([message], (), dialect)
    parsed = parse(dialect, turn["content"], TYPED)
    assert parsed.content == content.rstrip()
    assert [(name, json.loads(text)) for name, text in parsed.calls] == [("f", arguments)] * 2


@pytest.mark.parametrize(
    ("dialect", "turn"),
    [
        (
            QWEN,
            "Look.\n\n<tool_call>\n<function=f>\n<parameter=s>\n  a\n\n</parameter>\n"
            '<parameter=o>\n{"k": [1.50, true]}\n</parameter>\n<parameter=n>\n1e2\n</parameter>\n'
            "<parameter=b>\nTrue\n</parameter>\n</function>\n</tool_call>",
        ),
        (
            MINICPM,
            'Look.\n<function name="f"><param name="s"><![CDATA[a & b]]></param>'
            '<param name="o">{\'k\': [1, True, None]}</param><param name="n">1e2</param>'
            '</function>\n<function name="f"></function>',
        ),
        (
            JSON,
            'Look.\n\n```json\n{"function": "f", "arguments": {"s": "a\\n", "n": 1e2, '
            '"o": {"k": [true]}}}\n```',
        ),
    ],
    ids=["qwen", "minicpm", "json"],
)
def test_the_next_prompt_continues_the_sampled_text(dialect: Dialect, turn: str) -> None:
    """What the model wrote in its dialect comes back as it wrote it, so that the cache holds."""
    parsed = parse(dialect, turn, TYPED)
    calls = [{"function": {"name": name, "arguments": text}} for name, text in parsed.calls]
    message = {"role": "assistant", "content": parsed.content, "tool_calls": calls}
    (rendered,) = render_conversation([message], (), dialect)
    assert rendered["content"] == turn
