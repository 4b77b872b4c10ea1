"""Calls in the Qwen3-Coder dialect (reference, Tool calling; scenarios, section A)."""

import json
from typing import Any

import pytest

from pantheon.engine.tools import Arguments, CallClosed, CallOpened, Text, read_tools
from tests.engine.tools.parses import QWEN, TOOLS, Parsed, function, parse, whole

PING = "<tool_call>\n<function=ping>\n</function>\n</tool_call>"


def call_of(name: str, **arguments: str) -> str:
    """A call as the model writes it."""
    values = "".join(
        f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments.items()
    )
    return f"<tool_call>\n<function={name}>\n{values}</function>\n</tool_call>"


def test_a_call_without_text_has_no_text_event() -> None:
    """Reference, tool_calls: content is null for a pure tool call."""
    events = whole(QWEN, "\n" + PING + "\n")
    assert events[0] == CallOpened(0, "ping")
    assert not any(isinstance(event, Text) for event in events)


def test_the_compact_form_of_the_reference() -> None:
    """Reference, table of dialects: no line breaks between the tags."""
    text = "<tool_call><function=read><parameter=filePath>/a b</parameter></function></tool_call>"
    assert parse(QWEN, text).calls == (("read", '{"filePath": "/a b"}'),)


def test_a_value_may_hold_the_closing_tag() -> None:
    """Scenario 2."""
    value = "Use </parameter> to close."
    assert parse(QWEN, call_of("write_file", path="a", content=value)).arguments == {
        "path": "a",
        "content": value,
    }


@pytest.mark.parametrize(
    "value",
    [
        call_of("ping"),
        call_of("read", filePath="x"),
        "before\n" + call_of("read", filePath="x") + "\nafter",
        "</parameter>\n</function>\n</tool_call>\n</parameter>\n</function>",
        "a\n</parameter>\n\n</parameter>",
    ],
)
def test_a_value_may_hold_whole_calls(value: str) -> None:
    """Scenario 2: never a truncated call and leaked text."""
    parsed = parse(QWEN, call_of("write_file", path="a", content=value))
    if value.startswith("before"):
        # The end of the inner call followed by text cannot be told from the end of the outer one.
        assert len(parsed.calls) == 1
        return
    assert parsed == Parsed("", (("write_file", json.dumps({"path": "a", "content": value})),))


def test_an_answer_that_ends_inside_a_value() -> None:
    """Scenario 4: left out, and reported with function and parameter."""
    text = call_of("write_file", path="a", content="x" * 2000)
    parsed = parse(QWEN, "Sure.\n" + text[:1000])
    assert (parsed.content, parsed.calls) == ("Sure.", ())
    assert parsed.codes == (("unfinished_call", "write_file", "content"),)
    assert "'content'" in parsed.errors[0].message and "'write_file'" in parsed.errors[0].message


@pytest.mark.parametrize(
    ("end", "error"),
    [
        ("<tool_call>", (None, None)),
        ("<tool_call>\n<funct", (None, None)),
        ("<tool_call>\n<function=rea", (None, None)),
        ("<function=read", (None, None)),
        ("<tool_call>\n<function=read>", ("read", None)),
        ("<tool_call>\n<function=read>\n<param", ("read", None)),
        ("<tool_call>\n<function=read>\n<parameter=filePath>", ("read", "filePath")),
        ("<tool_call>\n<function=read>\n<parameter=filePath>\na\n</parameter>", ("read", None)),
    ],
)
def test_an_answer_that_ends_inside_a_call(end: str, error: tuple[str | None, ...]) -> None:
    """Scenario 4: no part of a call becomes content, wherever it ends."""
    parsed = parse(QWEN, "Sure.\n\n" + end)
    assert (parsed.content, parsed.calls) == ("Sure.", ())
    assert parsed.codes == (("unfinished_call", *error),)


def test_a_call_without_the_outer_tag() -> None:
    """Scenario 5: an offered function opens a call, the orphan closer is swallowed."""
    text = "I'll fetch it.\n\n" + call_of("write_file", path="x", content="y").removeprefix(
        "<tool_call>\n"
    )
    assert parse(QWEN, text) == Parsed(
        "I'll fetch it.", (("write_file", '{"path": "x", "content": "y"}'),)
    )


PROSE = [
    "Some models use `<function=foo>` tags.",
    "Some models use `<function=read>` tags.",
    "Close with </function> and </tool_call>.",
    "It opens with <tool_call>",
    "Write <tool_call>\n<function=NAME>\n<parameter=KEY>",
    "Then <function=rea",
    "a < b, <fun",
    "<tool_call>\n<function=unknown>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>\n",
    '<tool_call>\n{"name": "read", "arguments": {}}\n</tool_call>',
    "  \n leading and trailing \n\n",
    " \n ",
    "",
]


@pytest.mark.parametrize("prose", PROSE)
def test_prose_stays_prose(prose: str) -> None:
    """Scenario 6: names that are not offered, and tags that are only mentioned."""
    assert parse(QWEN, prose) == Parsed(prose)


@pytest.mark.parametrize("prose", [prose for prose in PROSE if prose.strip()])
def test_a_call_behind_prose_is_found(prose: str) -> None:
    """Scenario 6: a later real call is still found."""
    assert parse(QWEN, f"{prose}\n{PING}") == Parsed(prose.rstrip(), (("ping", "{}"),))


def test_a_typed_value_waits_until_it_is_closed() -> None:
    """Scenario 8: `1`, `4`, `0`, `.0`."""
    parser = QWEN.parser(TOOLS)
    for piece in ("<tool_call>\n<function=write_file>\n<parameter=mode>\n", "1", "4", "0", ".0"):
        events = parser.push(piece)
        assert events in ([], [CallOpened(0, "write_file")])
    rest = "\n</parameter>\n</function>\n</tool_call>"
    assert parse(QWEN, call_of("write_file", mode="140.0")).arguments == {"mode": 140}
    assert [*parser.push(rest), *parser.finish()] == [
        Arguments(0, '{"mode": 140'),
        Arguments(0, "}"),
        CallClosed(0),
    ]


def test_a_string_streams_as_it_comes() -> None:
    """Scenario 36: a long value is not held until the call is complete."""
    parser = QWEN.parser(TOOLS)
    parser.push("<tool_call>\n<function=write_file>\n<parameter=content>\n")
    for piece in ('line "one"\n', "line two", " 日本\n"):
        (event,) = parser.push(piece)
        shown = json.loads(f'"{event.text}"')  # type: ignore[union-attr]
        assert shown.strip("\n") and shown.strip("\n") in piece


TYPES: list[tuple[Any, str, Any]] = [
    # Scenarios 9 and 10: a string is a string.
    ({"type": "string"}, "03106", "03106"),
    *(({"type": "string"}, text, text) for text in ('{"a": 1}', "[1,2]", "true", "null", "1.0")),
    # Scenario 12: schemas of any kind.
    ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "5", "5"),
    ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "five", "five"),
    ({"anyOf": [{"type": "object"}, {"type": "string"}]}, '{"a": 1}', {"a": 1}),
    ({"anyOf": [{"type": "object"}, {"type": "string"}]}, '{"a": 1', '{"a": 1'),
    ({"anyOf": [{"type": "object"}, {"type": "string"}]}, "{'a': 1}", "{'a': 1}"),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "5", 5),
    ({}, "5", "5"),
    ({}, "null", "null"),
    ({}, '{"a": [1]}', {"a": [1]}),
    (True, "text", "text"),
    (True, "[1]", [1]),
    (False, "x", "x"),
    (None, "x", "x"),
    (["odd"], "x", "x"),
    ({"type": 5, "anyOf": {}, "$ref": 3, "enum": 1}, "x", "x"),
    ({"type": ["string", "null"]}, "null", None),
    ({"type": ["string", "null"]}, "None", "None"),
    ({"type": ["string", "null"]}, "nullable", "nullable"),
    ({"type": "string", "nullable": True}, "null", None),
    ({"$ref": "#/$defs/number"}, "5", 5),
    ({"$ref": "#/$defs/loop"}, "5", "5"),
    ({"$ref": "#/$defs/missing"}, "5", "5"),
    ({"$ref": "https://example.org/x"}, "5", "5"),
    ({"allOf": [{"type": ["integer", "string"]}, {"type": "integer"}]}, "5", 5),
    ({"enum": [1, 2]}, "2", 2),
    ({"enum": ["1", "2"]}, "2", "2"),
    ({"enum": ["a", 1]}, "1", 1),
    ({"enum": ["a", 1]}, "a", "a"),
    ({"const": True}, "true", True),
    # Typed values, in JSON's words and in Python's.
    ({"type": "integer"}, "5", 5),
    ({"type": "integer"}, " -5 ", -5),
    ({"type": "integer"}, "5.5", "5.5"),
    ({"type": "integer"}, "1e2", 100),
    ({"type": "integer"}, "five", "five"),
    ({"type": "integer"}, "", ""),
    ({"type": "integer"}, "007", "007"),
    ({"type": "integer"}, "9" * 5000, "9" * 5000),
    ({"type": "integer"}, '"5"', '"5"'),
    ({"type": "number"}, "1.50", 1.5),
    ({"type": "number"}, "NaN", "NaN"),
    ({"type": "number"}, "1e999", "1e999"),
    ({"type": "number"}, "true", "true"),
    ({"type": "boolean"}, "true", True),
    ({"type": "boolean"}, "False", False),
    ({"type": "boolean"}, "yes", "yes"),
    ({"type": "null"}, "None", None),
    ({"type": "object"}, '{"a": [1, {"b": null}]}', {"a": [1, {"b": None}]}),
    ({"type": "object"}, "{'a': True}", {"a": True}),
    ({"type": "object"}, "[1]", "[1]"),
    ({"type": "object"}, "{oops", "{oops"),
    ({"type": "array"}, '["a",\n "b"]', ["a", "b"]),
    ({"type": "array"}, "[" * 5000 + "]" * 5000, "[" * 5000 + "]" * 5000),
]


@pytest.mark.parametrize(("schema", "text", "expected"), TYPES, ids=range(len(TYPES)))
def test_arguments_are_typed_by_the_schema(schema: Any, text: str, expected: Any) -> None:
    """Reference: arguments typed from each tool's JSON schema; scenarios 9, 10, 12."""
    definitions = {"number": {"type": "integer"}, "loop": {"$ref": "#/$defs/loop"}}
    tools = read_tools([function("f", {"v": schema}, **{"$defs": definitions})])
    value = parse(QWEN, call_of("f", v=text), tools).arguments["v"]
    assert (value == expected and type(value) is type(expected)) or (value, expected) == (
        100.0,
        100,
    )


@pytest.mark.parametrize(
    "parameters",
    [
        True,
        {},
        {"properties": 5},
        {"$ref": "#/$defs/args", "$defs": {"args": {"properties": {"v": {"type": "integer"}}}}},
        {"allOf": [{"properties": {"v": {"type": "integer"}}}]},
        {"additionalProperties": {"type": "integer"}},
        {"$ref": "#"},
        {"anyOf": [{"$ref": "#"}] * 50},
        {"additionalProperties": {"anyOf": [{"$ref": "#/additionalProperties"}] * 2}},
    ],
)
def test_schemas_of_any_shape_around_the_argument(parameters: Any) -> None:
    """Scenario 12: no exception for any JSON value; what is named is found through references."""
    entry = {"function": {"name": "f", "parameters": parameters}}
    expected = 5 if "integer" in str(parameters) else "5"
    assert parse(QWEN, call_of("f", v="5"), read_tools([entry])).arguments == {"v": expected}


def test_values_are_kept_byte_for_byte() -> None:
    """Scenario 13: one line break at each end is the tags'; nothing else changes."""
    value = "\n    if a &amp;&amp; b:\n        pass\n\n"
    text = f"<function=write_file><parameter=content>\n{value}\n</parameter></function>"
    assert parse(QWEN, text).arguments == {"content": value}
    for written, expected in (("", ""), ("\n", ""), ("\n\n", ""), ("\n\n\n", "\n"), ("\r\n", "")):
        text = f"<function=write_file><parameter=content>{written}</parameter></function>"
        assert parse(QWEN, text).arguments == {"content": expected}


@pytest.mark.parametrize("value", ["", "a", "a\r\nb", "\r\n", "a\r"])
def test_line_breaks_of_two_characters_are_one(value: str) -> None:
    """Scenario 13: with CRLF, too, one line break at each end is the tags'."""
    text = call_of("write_file", content="@").replace("\n", "\r\n").replace("@", value)
    for pieces in (text, list(text)):
        assert parse(QWEN, pieces).arguments == {"content": value}


@pytest.mark.parametrize("between", ["\n", "", "\r\n", "\n\n"])
@pytest.mark.parametrize("wrapper", ["<tool_call>\n", ""])
def test_a_call_may_end_with_its_wrapper(between: str, wrapper: str) -> None:
    """A model that forgets `</function>`: the call is complete, and the next one is found."""
    call = f"{wrapper}<function=read>\n<parameter=filePath>\nx\n</parameter>{between}</tool_call>"
    for text in (f"A.\n{call}\n{call}\n{PING}\nB.", f"A.\n{call}{call}{PING}B."):
        parsed = parse(QWEN, text)
        assert parsed == parse(QWEN, list(text))
        assert parsed.calls == (("read", '{"filePath": "x"}'),) * 2 + (("ping", "{}"),)
        assert parsed.content in ("A.\n\nB.", "A.\nB.") and not parsed.errors
    assert parse(QWEN, call).calls == (("read", '{"filePath": "x"}'),)


def test_a_value_may_hold_a_call_that_ends_with_its_wrapper() -> None:
    """Scenario 2."""
    value = "<function=read>\n<parameter=filePath>\nx\n</parameter>\n</tool_call>"
    assert parse(QWEN, call_of("write_file", path="a", content=value)).arguments == {
        "path": "a",
        "content": value,
    }


def test_no_arguments_are_an_empty_object() -> None:
    """Scenario 17."""
    assert parse(QWEN, PING) == Parsed("", (("ping", "{}"),))


def test_several_calls() -> None:
    """In wrappers of their own, in one, without any; whitespace between them is dropped."""
    bare = "<function=ping>\n</function>"
    text = f"Two.\n\n{PING}\n{PING}\n\n<tool_call>\n{bare}\n{bare}\n</tool_call>{bare}\n"
    assert parse(QWEN, text) == Parsed("Two.", (("ping", "{}"),) * 5)


def test_text_behind_a_call_is_kept_apart_from_text_before_it() -> None:
    """No character of prose is lost, and lines do not run together."""
    assert parse(QWEN, f"One.\n\n{PING}\nTwo. \n").content == "One.\n\nTwo. \n"
    assert parse(QWEN, f"One.{PING}\nTwo.").content == "One.\nTwo."
    assert parse(QWEN, f"{PING}\nTwo.").content == "Two."
    assert parse(QWEN, f"One. {PING} \n").content == "One."


def test_the_first_of_two_values_for_one_parameter_counts() -> None:
    """Scenario 34: JSON never holds the key twice."""
    values = [f"<parameter=filePath>\n{value}\n</parameter>\n" for value in "ab"]
    text = f"<function=read>\n{''.join(values)}</function>"
    assert parse(QWEN, text).calls == (("read", '{"filePath": "a"}'),)


@pytest.mark.parametrize("name", ["github.search-issues", "søk", "a/b c", "generator-mcp_get"])
def test_names_are_matched_exactly(name: str) -> None:
    """Scenario 40."""
    tools = read_tools([function(name), *(function(f"tool{i}") for i in range(60))])
    text = f"<tool_call>\n<function={name}>\n</function>\n</tool_call>"
    assert parse(QWEN, text, tools).calls == ((name, "{}"),)
    near = text.replace(name, name + "x")
    assert parse(QWEN, near, tools) == Parsed(near)
