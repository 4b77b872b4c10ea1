"""Schemas that clients send with tools, in their grammars."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pantheon.engine.constraint import ToolGrammars, UnsupportedSchema
from pantheon.engine.tools import Dialect, Tool, read_tools
from tests.engine.constraint.called import Called
from tests.engine.constraint.test_tool_grammars import called, compiler, turn, walk
from tests.engine.tools.parses import JSON, QWEN, function

DIALECTS = pytest.mark.parametrize("dialect", [QWEN, JSON], ids=["qwen", "json"])


def offered(parameters: Any, name: str = "f") -> tuple[Tool, ...]:
    return read_tools([{"type": "function", "function": {"name": name, "parameters": parameters}}])


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return schema


def value(schema: Any, **more: Any) -> dict[str, Any]:
    """Parameters with one required argument `v`."""
    return {"type": "object", "properties": {"v": schema}, "required": ["v"], **more}


HARD = [
    value({"type": "string", "maxLength": 5000, "pattern": "\\S"}),
    value(
        {"type": "object", "properties": {"s": {"type": "string", "pattern": "((a{1,99}){99})"}}}
    ),
    value({"type": "string", "pattern": "(?=x)("}),
    nested(28),
    value({"anyOf": [{"type": "integer"}, {"type": "string"}]}),
    value({}),
    value(True),
    value({"type": ["integer", "null"]}),
    value({"type": "objekt"}),
    value({"type": 5, "enum": "x", "items": 3}),
    value({"type": "array", "items": {"$ref": "#/$defs/nowhere"}}),
    value({"type": "array", "items": {"$ref": "http://example.com/x"}}),
    value({"$ref": "#"}),
    value(
        {"$ref": "#/$defs/a"}, **{"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    ),
    value({"type": "array", "minItems": 10**8}),
    value({"type": "array", "items": [{"type": "integer"}, {"type": "string"}]}),
    value({"type": "integer", "minimum": 5, "maximum": 1}),
    value({"type": "integer", "minimum": 10**400, "multipleOf": 0}),
    value({"type": "number", "exclusiveMinimum": True, "minimum": 1e300}),
    value({"type": "integer", "exclusiveMinimum": 0, "maximum": 2**53 - 1, "minimum": 1 - 2**53}),
    value({"enum": [f"value {number}" for number in range(4000)]}),
    value({"enum": []}),
    value({"enum": ["</parameter>", 1]}),
    value({"const": {"a": [1]}}),
    value({"type": "object", "not": {}, "if": {}, "then": {}, "x-unknown": [1]}),
    value({"type": "object", "patternProperties": {"^x": {}}, "additionalProperties": False}),
    value({"type": "object", "x-guidance": {"whitespace_pattern": " *", "lenient": False}}),
    {"anyOf": [value({"type": "integer"}), {"properties": {"w": {"type": "boolean"}}}]},
    {"allOf": [value({"type": "integer"}), {"required": ["w"]}]},
    {"allOf": [{"anyOf": [{"properties": {f"k{i}_{j}": {}}} for j in range(6)]} for i in range(8)]},
    {"type": "object", "properties": {f"k{number}": {"type": "integer"} for number in range(300)}},
    {"properties": 5, "required": "v"},
    {"properties": {"a<b\n": {"type": "integer"}, "ok": {}}, "required": ["a<b\n", "ok"]},
    {},
    True,
    False,
    {"type": "array"},
    {"type": "object", "properties": {}},
    value(False),
]


@DIALECTS
@pytest.mark.parametrize("parameters", HARD, ids=range(len(HARD)))
def test_any_schema_is_compiled_or_relaxed(dialect: Dialect, parameters: Any) -> None:
    """Unknown and costly keywords degrade to any value of the type; the request is answered."""
    began = time.process_time()
    tools = offered(parameters)
    for compelled in (True, False):
        run = called(dialect, tools, compelled=compelled)
    run = called(dialect, tools)
    assert time.process_time() - began < 3
    walk(run, random.Random(4))
    assert run.call[0] == "f"


@DIALECTS
@pytest.mark.parametrize(
    ("schema", "fits", "others"),
    [
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, ["3", "null"], ["[", "t"]),
        ({"type": "array", "items": {"type": "integer"}}, ["[]", "[1, 2]"], ["1", "{", '["']),
        ({"enum": [1, [2], None]}, ["1", "[2]", "null"], ["2", "[1"]),
        ({"type": "integer", "minimum": 3, "exclusiveMaximum": 30}, ["3", "29"], ["30", "1.", "-"]),
        ({"type": "boolean"}, ["true", "false"], ["1", "n"]),
        ({"$ref": "#/properties/w"}, ["[true]"], ["t"]),
    ],
)
def test_values_are_held_to_their_schema(
    dialect: Dialect, schema: Any, fits: list[str], others: list[str]
) -> None:
    """Types, listed values, bounds, references: the same in both dialects."""
    parameters = value(schema)
    parameters["properties"]["w"] = {"type": "array", "items": {"type": "boolean"}, "minItems": 1}
    tools = offered(parameters)
    for text in fits:
        run = called(dialect, tools)
        run.take_text(turn(dialect, "f", f'{{"v": {text}}}'))
        assert run.complete and run.call[1] == {"v": json.loads(text)}
    opener = {
        QWEN.name: "<tool_call>\n<function=f>\n<parameter=v>\n",
        JSON.name: '{"name": "f", "arguments": {"v": ',
    }[dialect.name]
    for text in others:
        with pytest.raises(AssertionError):
            called(dialect, tools).take_text(opener + text + ("\n" if dialect is QWEN else "}"))


@pytest.mark.parametrize(
    ("schema", "is_closed"),
    [
        ({"properties": {"a": {}}}, True),
        ({"type": "object", "properties": {"a": {}}, "required": ["a"]}, True),
        ({"type": "object", "properties": {"a": {}}, "required": ["b"]}, False),
        ({"type": "object", "properties": {}}, False),
        ({"type": "object", "properties": {"a": {}}, "additionalProperties": True}, False),
        ({"properties": {"a": {}}, "patternProperties": {"^x": {}}}, False),
        ({"properties": {"a": {}}, "anyOf": [{"required": ["b"]}]}, False),
        ({"anyOf": [{"properties": {"a": {}}}]}, True),
    ],
)
def test_an_object_has_the_properties_that_are_listed(schema: Any, is_closed: bool) -> None:
    """A model is to use those; JSON Schema would allow any others."""
    text = turn(JSON, "f", '{"v": {"a": 1, "b": 2}}')
    run = called(JSON, offered(value({**schema, "type": "object"})))
    if is_closed:
        with pytest.raises(AssertionError):
            run.take_text(text)
    else:
        run.take_text(text)
        assert run.complete


@DIALECTS
def test_any_text_may_stand_in_names_and_listed_values(dialect: Dialect) -> None:
    """Marks of the grammar's own language, of regular expressions and of JSON."""
    odd = ["http://x/*y*/", "#a", 'q"\\', "%if", "a|b", "[x]{2}", "é🦜", "\t", "$(.*)^", "'", "/"]
    tools = read_tools(
        [
            function(
                f"a//{name.strip()}".replace('"', ""),
                {"k": {"enum": odd}, name: {"enum": [name, 1]}, "o": {"enum": [{"u": odd}]}},
                required=["k", name],
            )
            for name in odd
        ]
    )
    for tool, name in zip(tools, odd, strict=True):
        arguments = {"k": name, name: name, "o": {"u": odd}}
        run = called(dialect, tools)
        run.take_text(turn(dialect, tool.name, json.dumps(arguments, ensure_ascii=False)))
        assert run.call == (tool.name, arguments)


@DIALECTS
@pytest.mark.parametrize("count", [63, 65, 256])
def test_many_arguments(dialect: Dialect, count: int) -> None:
    """More than a rule can tell whether they came: the required ones are still asked for."""
    keys = [f"k{number}" for number in range(count)]
    parameters = {
        "type": "object",
        "properties": {key: {"type": "integer"} for key in keys},
        "required": keys[-3:],
    }
    run = called(dialect, offered(parameters))
    arguments = {key: 1 for key in keys}
    run.take_text(turn(dialect, "f", json.dumps(arguments)))
    assert run.call[1] == arguments
    del arguments[keys[-2]]
    with pytest.raises(AssertionError):
        called(dialect, offered(parameters)).take_text(turn(dialect, "f", json.dumps(arguments)))


@DIALECTS
def test_one_impossible_schema_leaves_the_others_as_they_are(
    dialect: Dialect, caplog: pytest.LogCaptureFixture
) -> None:
    """Relaxed to the types, with a line in the log that names the tool."""
    tools = read_tools(
        [
            function("bad", {"v": {"type": "integer", "minimum": 7, "maximum": 2}}, required=["v"]),
            function(
                "good", {"v": {"type": "integer", "minimum": 2, "maximum": 7}}, required=["v"]
            ),
        ]
    )
    made = ToolGrammars(compiler("qwen35"), dialect)
    tokenizer = compiler("qwen35").tokenizer
    run = Called(made, tokenizer, dialect, tools)
    assert "relaxed to types in 1 places: 'bad' (argument 'v'): no value fits" in caplog.text
    assert "'good'" not in caplog.text
    run.take_text(turn(dialect, "bad", '{"v": 1000}'))
    assert run.call == ("bad", {"v": 1000})
    with pytest.raises(AssertionError):
        Called(made, tokenizer, dialect, tools).take_text(turn(dialect, "good", '{"v": 1000}'))


def test_what_is_not_enforced_is_said_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    made = ToolGrammars(compiler("qwen35"), JSON)
    tools = offered(value({"type": "string", "maxLength": 5000, "pattern": "\\S"}))
    Called(made, compiler("qwen35").tokenizer, JSON, tools)
    assert "enforced in part: maxLength, pattern" in caplog.text


@DIALECTS
def test_many_tools(dialect: Dialect) -> None:
    """As many as a request may have, within bounds of time."""
    tools = read_tools([function(f"tool_{n}", {"v": {"type": "integer"}}) for n in range(1024)])
    began = time.process_time()
    run = called(dialect, tools)
    assert time.process_time() - began < 3
    run.take_text(turn(dialect, "tool_1000", '{"v": 3}'))
    assert run.call == ("tool_1000", {"v": 3})


KEYWORDS = [
    "type",
    "properties",
    "items",
    "enum",
    "const",
    "anyOf",
    "oneOf",
    "allOf",
    "$ref",
    "required",
    "minimum",
    "maximum",
    "additionalProperties",
    "minItems",
    "prefixItems",
    "nullable",
    "multipleOf",
    "$defs",
]
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYWORDS) | st.text(max_size=3),
            inner | st.sampled_from(["object", "string", "integer", "#", "#/properties/type"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


@DIALECTS
@settings(max_examples=120, deadline=None)
@given(
    parameters=st.dictionaries(
        st.sampled_from(["properties", "type", "required", "anyOf", "$ref"]), JSON_VALUES
    )
)
def test_any_json_in_schema_position(dialect: Dialect, parameters: Any) -> None:
    """Nothing but a clean refusal, whatever the schema is."""
    try:
        run = called(dialect, offered(parameters))
    except UnsupportedSchema:
        return
    assert run.allowed()
