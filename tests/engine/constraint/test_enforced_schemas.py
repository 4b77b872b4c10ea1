"""What a compelled call's arguments are held to, wherever the answer ends."""

from __future__ import annotations

import contextlib
import json
import random
from typing import Any

import jsonschema
import pytest

from pantheon.engine.constraint import ToolGrammars
from pantheon.engine.stop_strings import StopStrings
from pantheon.engine.tools import Dialect
from tests.engine.constraint.called import Called
from tests.engine.constraint.test_tool_grammars import called, compiler, turn, walk
from tests.engine.constraint.test_tool_schemas import DIALECTS, offered, value
from tests.engine.tools.parses import JSON, QWEN
from tests.log_records import records_of

NODE = {
    "type": "object",
    "properties": {"v": {"type": "string"}, "next": {"$ref": "#/$defs/node"}},
    "required": ["v"],
}
INNER = {
    "type": "object",
    "properties": {
        "q": {"type": "integer"},
        "n": {"type": "boolean"},
        "m": {"type": "array", "items": {"type": "null"}, "minItems": 1},
    },
    "required": ["q", "n"],
}
RADIUS = {"type": "number", "minimum": 0}

SCHEMAS: dict[str, Any] = {
    "nested objects": value({"type": "object", "properties": {"p": INNER}, "required": ["p"]}),
    "listed strings": value({"enum": ["line\nbreak", "line", 'a"b', ""]}),
    "a constant": value({"const": 144}),
    "a list of one of two": value({"const": [{"k": "x"}, 1]}),
    "bounds of integers": value({"type": "integer", "minimum": 100, "maximum": 200}),
    "bounds of numbers": value({"type": "number", "minimum": -0.25, "exclusiveMaximum": 31.5}),
    "positive": value({"type": "number", "exclusiveMinimum": 0}),
    "lengths": value({"type": "array", "items": INNER, "minItems": 2, "maxItems": 4}),
    "first items": value(
        {"prefixItems": [INNER, {"type": "string"}], "type": "array", "items": False, "minItems": 2}
    ),
    "a reference": value({"$ref": "#/$defs/node"}, **{"$defs": {"node": NODE}}),
    "recursion that must go on": value(
        {
            "type": "object",
            "properties": {"a": {"anyOf": [{"$ref": "#/properties/v"}, {"type": "null"}]}},
            "required": ["a"],
        }
    ),
    "all of": value({"allOf": [{"type": "integer"}, {"minimum": 5}, {"maximum": 77}]}),
    "all of two objects": value(
        {
            "allOf": [
                INNER,
                {"properties": {"w": {"enum": [True, 3]}}, "required": ["w"]},
                {"type": "object", "properties": {"q": {"maximum": 3, "minimum": 1}}},
            ]
        }
    ),
    "multiples": value({"type": "integer", "multipleOf": 7, "minimum": 20, "maximum": 400}),
    "one of several": value(
        {"oneOf": [{"type": "integer", "minimum": 9, "maximum": 12}, INNER, {"type": "null"}]}
    ),
    "one of and more": value(
        {
            "properties": {"kind": {"enum": ["circle", "square"]}},
            "required": ["kind"],
            "oneOf": [
                {"properties": {"kind": {"const": "circle"}, "r": RADIUS}, "required": ["r"]},
                {"properties": {"kind": {"const": "square"}, "a": INNER}, "required": ["a"]},
            ],
        }
    ),
    "other properties": value(
        {
            "type": "object",
            "properties": {"a": {"type": "boolean"}},
            "additionalProperties": {"type": "integer", "minimum": 1},
            "required": ["a"],
        }
    ),
    "nothing said": value({}),
    "alternatives at the root": {
        "type": "object",
        "properties": {"path": {"type": "string"}, "all": {"type": "boolean"}, "n": INNER},
        "anyOf": [{"required": ["path"]}, {"required": ["all", "n"]}],
    },
    "different arguments at the root": {
        "oneOf": [
            {
                "type": "object",
                "properties": {"kind": {"const": "circle"}, "r": RADIUS},
                "required": ["kind", "r"],
                "additionalProperties": False,
            },
            {
                "type": "object",
                "properties": {"kind": {"const": "line"}, "to": INNER},
                "required": ["kind", "to"],
                "additionalProperties": False,
            },
        ]
    },
    "all of at the root": {
        "allOf": [
            {"type": "object", "properties": {"a": INNER}, "required": ["a"]},
            {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]},
        ]
    },
}
CASES = pytest.mark.parametrize("parameters", list(SCHEMAS.values()), ids=list(SCHEMAS))


@DIALECTS
@CASES
def test_a_call_fits_its_schema(dialect: Dialect, parameters: Any) -> None:
    """Arguments typed and required keys present, and all else that the schema says."""
    tools = offered(parameters)
    for seed in range(12):
        run = called(dialect, tools)
        walk(run, random.Random(seed))
        assert run.complete
        jsonschema.validate(run.call[1], parameters)


@DIALECTS
@CASES
def test_a_call_fits_its_schema_wherever_the_answer_may_end(
    dialect: Dialect, parameters: Any
) -> None:
    """An end token is allowed only where the closing text completes a call that is well-formed,
    with arguments that fit: here the answer ends as soon as it may."""
    tools = offered(parameters)
    for seed in range(40):
        run = called(dialect, tools)
        draw = random.Random(seed)
        # At the first place, or at a later one.
        chances = draw.choice([1.0, 1.0, 0.3])
        walk(run, draw, ends=chances)
        assert run.reason == "stop" and run.calls.error is None, run.written
        jsonschema.validate(run.call[1], parameters)


ANY = offered(value({}))
BEGUN = {
    QWEN.name: "<tool_call>\n<function=f>\n<parameter=v>\n",
    JSON.name: '{"name": "f", "arguments": {"v": ',
}


@DIALECTS
@pytest.mark.parametrize(
    ("schema", "text", "refused"),
    [
        ({"type": "number"}, "6e53", "0123456789"),
        ({"type": "number"}, "-2.5E-10", "0123456789"),
        ({"type": "number"}, "7" + "8" * 18, "0123456789"),
        ({"type": "integer"}, "7" + "8" * 18, "0123456789"),
        ({"type": "object"}, '{ "m" :\n2360E07', "0123456789"),
    ],
)
def test_numbers_have_an_end(dialect: Dialect, schema: Any, text: str, refused: str) -> None:
    """What readers of JSON refuse, or do not agree about, cannot be written."""
    tools = offered(value(schema))
    run = called(dialect, tools)
    run.take_text(BEGUN[dialect.name] + text)
    token_bytes = run.tokenizer.token_bytes
    allowed = {token_bytes.get(token)[:1].decode(errors="replace") for token in run.allowed() or ()}
    assert allowed and allowed.isdisjoint(refused)
    walk(run, random.Random(1), ends=1)
    assert run.calls.error is None and len(run.calls.calls) == 1


@DIALECTS
@pytest.mark.parametrize(
    ("schema", "opener"),
    [
        ({"type": "array"}, "["),
        ({"type": "object"}, '{"a":['),
        ({"type": "object", "additionalProperties": {"$ref": "#"}}, '{"a":{"v":'),
        (NODE, '{"v":"","next":'),
    ],
)
def test_nesting_has_an_end(dialect: Dialect, schema: Any, opener: str) -> None:
    """Where a schema sets none, or is recursive: readers refuse what is deeper than they like."""
    tools = offered(value(schema, **{"$defs": {"node": NODE}}))
    run = called(dialect, tools)
    run.take_text(BEGUN[dialect.name])
    taken = 0
    with contextlib.suppress(AssertionError):
        while taken < 100:
            run.take_text(opener)
            taken += 1
    assert 20 < taken <= 64
    walk(run, random.Random(1), ends=1)
    assert run.calls.error is None and len(run.calls.calls) == 1


@DIALECTS
def test_any_value_that_comes_is_read(dialect: Dialect) -> None:
    """An argument of which the schema says nothing: the parser takes what the grammar lets by."""
    for seed in range(25):
        run = called(dialect, ANY)
        walk(run, random.Random(seed), ends=random.Random(seed).choice([0, 0.2]))
        assert run.calls.error is None and "v" in run.call[1]


@DIALECTS
@pytest.mark.parametrize("order", [1, 65, 130])
def test_more_required_arguments_than_a_rule_counts(dialect: Dialect, order: int) -> None:
    """Each of them is asked for."""
    keys = [f"k{number}" for number in range(order + 70)]
    parameters = {"properties": {key: {"type": "integer"} for key in keys}, "required": keys}
    tools = offered(parameters)
    run = called(dialect, tools)
    arguments = dict.fromkeys(keys, 1)
    run.take_text(turn(dialect, "f", json.dumps(arguments)))
    assert run.call[1] == arguments
    for left_out in (keys[0], keys[order], keys[-1]):
        fewer = {key: 1 for key in keys if key != left_out}
        with pytest.raises(AssertionError):
            called(dialect, tools).take_text(turn(dialect, "f", json.dumps(fewer)))
    run = called(dialect, tools)
    walk(run, random.Random(3), steps=20_000, ends=1)
    assert run.call[1].keys() == arguments.keys()


def test_a_stop_string_does_not_make_a_call_that_does_not_fit() -> None:
    """What the stop cut off is closed only if that gives a call as the schema wants it."""
    tools = offered(SCHEMAS["nested objects"])
    text = '{"name": "f", "arguments": {"v": {"p": {"q": 1, "n": true'
    for stop, is_call in (('"n"', False), ("tru", False), ("e", False)):
        run = called(JSON, tools)
        run.answer._stops = StopStrings((stop,))
        for token in run.tokenizer.encode(text, special=False, continued=True):
            if run.reason is None:
                run.take(token)
        assert run.reason == "stop" and bool(run.calls.calls) == is_call
        assert is_call or run.calls.error is not None


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "number", "multipleOf": 0.3}, "in part: multipleOf"),
        ({"allOf": [{"type": "integer"}, {"not": {"const": 3}}]}, "in part: not"),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "in part: oneOf"),
        ({"type": "array", "items": {}, "minItems": 1000}, "in part: minItems"),
        ({"type": "integer", "minimum": 7, "maximum": 2}, "(argument 'v'): no value fits"),
        ({"$ref": "#"}, "(argument 'v'): no value fits"),
    ],
)
def test_what_is_not_enforced_is_said(
    schema: Any, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Compiled or relaxed with a log line, one for each set of tools."""
    caplog.set_level("INFO")
    for dialect in (QWEN, JSON):
        caplog.clear()
        made = ToolGrammars(compiler("qwen35"), dialect)
        Called(made, compiler("qwen35").tokenizer, dialect, offered(value(schema)))
        (record,) = records_of(caplog, "pantheon.engine.constraint")
        assert said in record.getMessage()
