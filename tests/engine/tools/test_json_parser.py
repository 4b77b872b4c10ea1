"""Calls in the JSON dialect (reference, Tool calling; scenarios, section A)."""

import json

import pytest

from pantheon.engine.tools import Arguments, CallOpened, read_tools
from tests.engine.tools.parses import JSON, TOOLS, Parsed, function, parse

W = read_tools([function("w", {"s": {"type": "string"}})])
CALL = '{"name":"w","arguments":{"s":"a } b \\" {"}}'
ARGUMENTS = '{"s":"a } b \\" {"}'


def test_python_literals_become_json() -> None:
    """Scenario 14."""
    text = '```json\n{"function":"read","arguments":{\'filePath\':\'/w/a.js\'}}\n```'
    assert parse(JSON, text) == Parsed("", (("read", '{"filePath":"/w/a.js"}'),))


@pytest.mark.parametrize("call", [CALL, "{" + CALL, "{ " + CALL + "}"])
def test_a_bare_object_inside_prose(call: str) -> None:
    """Scenario 16: string-aware braces, and one more brace in front."""
    assert parse(JSON, f"Here: {call} done", W) == Parsed("Here: done", (("w", ARGUMENTS),))


@pytest.mark.parametrize(
    "call",
    [
        CALL,
        f"```json\n{CALL}\n```",
        f"```\n{CALL}\n```",
        f"```json {CALL}```",
        CALL.replace("name", "function"),
        CALL.replace("arguments", "parameters"),
        f'{{"arguments": {ARGUMENTS}, "name": "w"}}',
        f'{{"type": "function", "function": {{"name": "w", "arguments": {ARGUMENTS}}}}}',
        f'{{"id": "1", "name": "w", "arguments": {ARGUMENTS}, "type": "function"}}',
        f'{{"name": "w", "arguments": {json.dumps(ARGUMENTS)}}}',
        f'{{"arguments": {json.dumps(ARGUMENTS)}, "function": "w"}}',
        CALL.replace('"name"', "'name'").replace('"w"', "'w'"),
        f"[{CALL}]",
        f"```json\n[\n  {CALL}\n]\n```",
        f"{{\n  {CALL[1:]}\n",
    ],
)
def test_forms_of_a_call(call: str) -> None:
    """Reference: fenced or bare, "function" or "name"; strict JSON passes byte for byte."""
    assert parse(JSON, call, W) == Parsed("", (("w", ARGUMENTS),))
    assert parse(JSON, f"A:\n{call}\nB.", W) == Parsed("A:\nB.", (("w", ARGUMENTS),))


@pytest.mark.parametrize(
    "calls",
    [
        f"{CALL}\n{CALL}",
        f"[{CALL}, {CALL}]",
        f"```json\n{CALL}\n```\n```json\n{CALL}\n```",
        f"```json\n{CALL}\n{CALL}\n```",
        f"```json\n[{CALL},{CALL}]\n```\n",
    ],
)
def test_several_calls(calls: str) -> None:
    """One behind the other, in an array, in fences."""
    assert parse(JSON, calls, W) == Parsed("", (("w", ARGUMENTS),) * 2)


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "Bob", "arguments": {"a": 1}}',
        '{"name": "w", "age": 3}',
        '{"name": "w"}',
        '{"name": "w", "arguments": 5, "age": 3}',
        '{"name": "Bob", "arguments": "no object"}',
        '{"arguments": {"s": "x"}}',
        '```json\n{"result": [1, {"name": "w", "arguments": {}}]}\n```\n',
        '[{"a": 1}, [2]] and [link](x) and {braces} and ```python\nd = {}\n```',
        "if (x) { return [1]; }",
        '{"unfinished": {"name": "w", "arguments": {}',
        '{"arguments": {"s": "x"',
        "``",
        "```json\n",
        "```json\n[",
        "{",
        "{{{",
        "",
    ],
)
def test_other_json_is_content(text: str) -> None:
    """Scenario 16: only an object whose name is offered counts."""
    assert parse(JSON, text, W) == Parsed(text)


def test_a_call_behind_other_json_is_found() -> None:
    """Scenario 6."""
    text = f'{{"a": 1}} {{b}} [1] {{"name": "Bob"}} {CALL}'
    assert parse(JSON, text, W) == Parsed(text.removesuffix(f" {CALL}"), (("w", ARGUMENTS),))


def test_arguments_stream_as_they_come() -> None:
    """Scenario 36: open with the name and the brace of the arguments, then piece by piece."""
    parser = JSON.parser(W)
    assert parser.push('```json\n{"name": "w", "arguments": ') == []
    assert parser.push('{"s": "lo') == [CallOpened(0, "w"), Arguments(0, '{"s": "lo')]
    assert parser.inside_call
    assert parser.push("ng") == [Arguments(0, "ng")]
    assert parser.push("\\") == []
    assert parser.push("n") == [Arguments(0, "\\n")]


def test_arguments_before_the_name_wait_for_it() -> None:
    """It is not known before that they are a call's."""
    parser = JSON.parser(W)
    assert parser.push('{"arguments": {"s": "1"}, "name": "') == []
    assert parser.push('w"') == [CallOpened(0, "w"), Arguments(0, '{"s": "1"}')]


@pytest.mark.parametrize(
    ("end", "parameter"),
    [
        ('{"name": "w"', None),
        ('```json\n{"name": "w", "arguments": {', None),
        ('{"name": "w", "arguments": {"s": "x', "s"),
        ('{"name": "w", "arguments": {"s": "x"}', None),
    ],
)
def test_an_answer_that_ends_inside_a_call(end: str, parameter: str | None) -> None:
    """Scenario 4."""
    parsed = parse(JSON, f"A.\n{end}", W)
    assert (parsed.content, parsed.calls) == ("A.", ())
    assert parsed.codes == (("unfinished_call", "w", parameter),)


def test_empty_arguments_and_repeated_keys() -> None:
    """Scenarios 17 and 34."""
    for written in ("{}", "null", '""', '"{}"', '"null"'):
        text = f'{{"name": "ping", "arguments": {written}}}'
        assert parse(JSON, text, TOOLS).calls == (("ping", "{}"),)
    text = '{"name": "w", "arguments": {"s": "a", "s": {"b": [1, 2]}, "t": 1}}'
    assert parse(JSON, text, W).calls == (("w", '{"s": "a", "t": 1}'),)


@pytest.mark.parametrize("name", ["github.search-issues", "søk", "a/b"])
def test_names(name: str) -> None:
    """Scenario 40: matched exactly, also when they are escaped."""
    tools = read_tools([function(name)])
    text = json.dumps({"name": name, "arguments": {}})
    assert parse(JSON, text, tools).calls == ((name, "{}"),)
    near = text.replace(name, name + "x") if name in text else text.replace("s", "S", 1)
    assert parse(JSON, near, tools) == Parsed(near)
