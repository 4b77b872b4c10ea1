"""Types of arguments that a model gives as JSON (reference: typed from each tool's schema)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pantheon.engine.tools import Arguments, CallOpened, merged, read_tools
from tests.engine.tools.parses import JSON, events_of, function, parse, pieces_of, strict

STRING, INTEGER, BOOLEAN = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}


def call_of(arguments: str) -> str:
    """A call of `f`."""
    return f'{{"name":"f","arguments":{arguments}}}'


@pytest.mark.parametrize(
    ("schema", "written", "expected"),
    [
        (STRING, "3106", '"3106"'),
        (STRING, "1.50", '"1.50"'),
        (STRING, "true", '"true"'),
        (STRING, "None", "null"),
        (STRING, '{"a": [1, "b"]}', '"{\\"a\\": [1, \\"b\\"]}"'),
        (STRING, "[]", '"[]"'),
        (STRING, '"03106"', '"03106"'),
        (STRING, '"null"', '"null"'),
        (INTEGER, '"5"', "5"),
        (INTEGER, '" 5 "', "5"),
        (INTEGER, "5.0", "5"),
        (INTEGER, '"five"', '"five"'),
        (INTEGER, "5.5", "5.5"),
        (INTEGER, "true", "true"),
        (BOOLEAN, '"true"', "true"),
        (BOOLEAN, '"False"', "false"),
        (BOOLEAN, "1", "1"),
        ({"type": "number"}, '"1.50"', "1.50"),
        ({"type": "null"}, '"null"', "null"),
        ({"type": "object"}, '"{\\"a\\": 1}"', '{"a": 1}'),
        ({"type": "array"}, '"[1, 2]"', "[1, 2]"),
        ({"type": "array"}, '{"a": 1}', '{"a": 1}'),
        ({"type": ["string", "null"]}, "null", "null"),
        ({"type": ["string", "null"]}, "5", '"5"'),
        ({"type": ["string", "integer"]}, '"5"', '"5"'),
        ({"type": ["string", "integer"]}, "5", "5"),
        ({"type": ["string", "object"]}, '"{}"', '"{}"'),
        ({"enum": ["a", 1]}, '"1"', "1"),
        ({"enum": ["a", 1]}, '"a"', '"a"'),
        ({"enum": ["1", "2"]}, "2", '"2"'),
        ({"enum": ["1", "2"]}, "3", "3"),
        ({}, "5", "5"),
        ({}, '"5"', '"5"'),
    ],
    ids=str,
)
def test_a_value_gets_a_type_that_the_schema_allows(
    schema: Any, written: str, expected: str
) -> None:
    """What can be read as an allowed type becomes that; anything else stays as it is."""
    tools = read_tools([function("f", {"v": schema})])
    for text in (f'{{"v":{written}}}', f'{{ "w" : 1, "v" : {written} }}'):
        ((_, arguments),) = parse(JSON, call_of(text), tools).calls
        assert arguments == text.replace(f":{written}", f":{expected}").replace(
            f": {written}", f": {expected}"
        )
    for text in (
        f'{{"arguments":{{"v":{written}}},"name":"f"}}',
        call_of(json.dumps(f'{{"v":{written}}}')),
    ):
        assert parse(JSON, text, tools).calls == (("f", f'{{"v":{expected}}}'),)


def test_a_string_streams_and_what_may_be_another_type_waits() -> None:
    """Scenarios 8 and 36."""
    tools = read_tools([function("f", {"s": STRING, "n": INTEGER})])
    parser = JSON.parser(tools)
    assert parser.push('{"name":"f","arguments":{"n":"1') == [
        CallOpened(0, "f"),
        Arguments(0, '{"n":'),
    ]
    assert parser.push('40"') == [Arguments(0, "140")]
    assert parser.push(', "s": "long ') == [Arguments(0, ', "s": "long ')]
    assert parser.push("text") == [Arguments(0, "text")]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ('{"o":{"a":1,"a":2}}', '{"o":{"a":1}}'),
        ('{"o":{"a":1,"b":{"a":[{"c":1,"c":{"c":2},"d":3}]},"a":2,}}', None),
        ('{"o":[{"a":1,"a":"x, }","b":2}]}', '{"o":[{"a":1,"b":2}]}'),
        ('{"o":{"a":1,"\\u0061":{"a":{}},"a":3}}', '{"o":{"a":1}}'),
        ('{"o":{"a":1, "a":2 , "b":3}}', '{"o":{"a":1, "b":3}}'),
    ],
)
def test_no_key_stands_twice_at_any_level(written: str, expected: str | None) -> None:
    """Scenario 34: the first counts."""
    tools = read_tools([function("f")])
    expected = expected or '{"o":{"a":1,"b":{"a":[{"c":1,"d":3}]}}}'
    assert parse(JSON, call_of(written), tools).calls == (("f", expected),)
    assert parse(JSON, list(call_of(written)), tools).calls == (("f", expected),)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ('"\\ud800"', '"\\ufffd"'),
        ('"\\ud83d\\ude00"', '"\\ud83d\\ude00"'),
        ('"\\udc00\\ud83dx"', '"\\ufffd\\ufffdx"'),
        ('"\\ud83d\\ud83d\\ude00\\ud83d\\n"', '"\\ufffd\\ud83d\\ude00\\ufffd\\n"'),
        ('{"\\ud800":1}', '{"\\ufffd":1}'),
    ],
)
def test_half_of_a_character_is_written_as_one_that_every_reader_takes(
    written: str, expected: str
) -> None:
    """Strict readers of JSON refuse an escaped surrogate without its other half."""
    tools = read_tools([function("f")])
    text = call_of(f'{{"v":{written}}}')
    for pieces in ([text], list(text)):
        assert parse(JSON, pieces, tools).calls == (("f", f'{{"v":{expected}}}'),)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "5", "null", "[1]", "x"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=5,
)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "null", "object", "array"])
SCHEMAS = st.lists(TYPES, min_size=1, max_size=3, unique=True).map(lambda names: {"type": names})


@given(
    schema=SCHEMAS | st.lists(VALUES, max_size=2).map(lambda values: {"enum": values}),
    value=VALUES,
    data=st.data(),
)
def test_typing_is_the_same_in_every_cut_and_settles(
    schema: Any, value: Any, data: st.DataObject
) -> None:
    """Whatever the schema, what comes out is strict JSON that is typed no further."""
    tools = read_tools([function("f", {"v": schema})])
    text = call_of(json.dumps({"v": value}))
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=4))
    expected = merged(events_of(JSON.parser(tools), [text]))
    assert merged(events_of(JSON.parser(tools), pieces_of(text, cuts))) == expected
    ((_, arguments),) = parse(JSON, text, tools).calls
    strict(arguments)
    assert parse(JSON, call_of(arguments), tools).calls == (("f", arguments),)
