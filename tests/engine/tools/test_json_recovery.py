"""What a JSON-dialect answer holds beside a call that goes wrong (scenarios 6, 14 and 16)."""

import json

import pytest

from pantheon.engine.tools import Arguments, CallFailed, CallOpened, Text
from tests.engine.tools.parses import JSON, TOOLS, Parsed, events_of, parse

PING = '{"name":"ping","arguments":{}}'
WRITE = '{"name":"write_file","arguments":{"path":"x"}}'
PLACEHOLDERS = [
    '`{"name": "write_file", "arguments": {...}}`. Now:',
    '{"name": "write_file", "arguments": {"path": <path>, ...}} and so on.',
    '{"name": "write_file", "arguments": {"path": path, "content": content}} it is.',
    '{"name": "write_file", "arguments": {path: "x"}} it is.',
    '{"name": "write_file", "arguments": {"path": [...]}} it is.',
    '{"name": "write_file", "arguments": {"path: <path>}}',
    '{"name": "write_file", "arguments": NaN oops}',
    '{"name": "write_file", ...} it is.',
]


@pytest.mark.parametrize("prose", PLACEHOLDERS)
def test_a_call_with_placeholders_is_prose(prose: str) -> None:
    """Scenario 6: text about calls is content, and a real call behind it is found."""
    assert parse(JSON, f"Use {prose}\nB.") == Parsed(f"Use {prose}\nB.")
    expected = Parsed(f"Use {prose}", (("write_file", '{"path":"x"}'), ("ping", "{}")))
    assert parse(JSON, f"Use {prose}\n{WRITE}\n{PING}") == expected


@pytest.mark.parametrize(
    ("call", "rest", "code", "parameter"),
    [
        ('{"path":"x", oops. I could not.', "oops. I could not.", "invalid_arguments", None),
        ('{"path":"x","mode": oops. No.', "oops. No.", "invalid_arguments", "mode"),
        ('{"path":"x","mode": <mode>}}', "<mode>}}", "invalid_arguments", "mode"),
        ('{"path":"x"} and more', "and more", "malformed_call", None),
        ('{"path":"x"},', "", "unfinished_call", None),
    ],
)
def test_what_follows_the_place_where_a_call_broke_is_content(
    call: str, rest: str, code: str, parameter: str | None
) -> None:
    """The failed call is reported; nothing of the answer is lost."""
    text = f'A.\n{{"name":"write_file","arguments":{call}'
    parsed = parse(JSON, text)
    assert (parsed.content, parsed.calls) == (f"A.\n{rest}" if rest else "A.", ())
    assert parsed.codes == ((code, "write_file", parameter),)
    if rest:
        parsed = parse(JSON, f"{text}\n{PING}\nB.")
        assert (parsed.content, parsed.calls) == (f"A.\n{rest}\nB.", (("ping", "{}"),))


@pytest.mark.parametrize(
    ("arguments", "parameter"),
    [
        ('{"path":NaN}', "path"),
        ('{"path":"x","mode":-Infinity,"content":"y"}', "mode"),
        ('{"mode":1e999}', "mode"),
        ('{"mode":[007]}', "mode"),
        ('"not json"', None),
        ('"[1]"', None),
        ("[1]", None),
        ("5", None),
    ],
)
@pytest.mark.parametrize("fence", ["{}", "```json\n{}\n```", "[{}]", "[{}, {}]"])
def test_arguments_that_strict_json_cannot_hold_are_reported(
    arguments: str, parameter: str | None, fence: str
) -> None:
    """Scenario 14: strict JSON or an error; the call behind it is found."""
    bad = f'{{"name":"write_file","arguments":{arguments}}}'
    text = "\n".join(("A.", fence.replace("{}", bad), PING, "B."))
    parsed = parse(JSON, text)
    assert (parsed.content, parsed.calls) == ("A.\nB.", (("ping", "{}"),))
    assert parsed.codes == (("invalid_arguments", "write_file", parameter),) * fence.count("{}")
    name_last = f'A.\n{{"arguments":{arguments},"name":"write_file"}}\n{PING}'
    parsed = parse(JSON, name_last)
    assert (parsed.content, parsed.calls) == ("A.", (("ping", "{}"),))
    assert [error.code for error in parsed.errors] == ["invalid_arguments"]


def test_no_delta_follows_a_value_that_breaks_the_call() -> None:
    """Nothing streams after it is known that the call fails, whatever the cut."""
    text = '{"name":"write_file","arguments":{"path":"x","mode":NaN,"content":"y"}} done'
    events = events_of(JSON.parser(TOOLS), text)
    written = "".join(event.text for event in events if isinstance(event, Arguments))
    assert written == '{"path":"x","mode":'
    assert [type(e) for e in events if not isinstance(e, Arguments | Text)] == [
        CallOpened,
        CallFailed,
    ]


def test_a_call_opens_with_its_first_value() -> None:
    """Before that it may be text about calls."""
    parser = JSON.parser(TOOLS)
    assert parser.push('{"name":"write_file","arguments":{"path":') == []
    assert parser.push('"')[0] == CallOpened(0, "write_file")
    parser = JSON.parser(TOOLS)
    assert parser.push('{"name":"write_file","arguments":{"mode":1') == []
    assert parser.push(",")[0] == CallOpened(0, "write_file")
    assert JSON.parser(TOOLS).push('{"name":"ping","arguments":{}')[0] == CallOpened(0, "ping")


def test_other_elements_of_an_array_of_calls_are_content_without_its_brackets() -> None:
    """Scenario 16."""
    text = f'A. [{PING}, {{"a":1}}, {PING}, {{"b":[2]}}]\nB.'
    assert parse(JSON, text) == Parsed('A. {"a":1} {"b":[2]}\nB.', (("ping", "{}"),) * 2)
    text = f'[{{"a":1}}, {PING}]'
    assert parse(JSON, text).calls == (("ping", "{}"),)


@pytest.mark.parametrize("call", [PING, f"```json\n{PING}\n```", f"[{PING}]"])
def test_the_wrapper_of_another_dialect_belongs_to_the_call(call: str) -> None:
    """As models of the Qwen family write around JSON."""
    wrapped = f"<tool_call>\n{call}\n</tool_call>"
    assert parse(JSON, f"A.\n{wrapped}\n{wrapped}") == Parsed("A.", (("ping", "{}"),) * 2)
    assert parse(JSON, list(f"A.\n{wrapped}\nB.")) == Parsed("A.\nB.", (("ping", "{}"),))


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>\n</tool_call>",
        '<tool_call>\n{"a": 1}\n</tool_call>',
        "a <tool_call> b </tool_call>",
        "<tool_call>```\nx\n```",
        "It ends with <tool_ca",
    ],
)
def test_a_wrapper_without_a_call_is_content(text: str) -> None:
    """Scenario 6."""
    assert parse(JSON, text) == Parsed(text)


def test_values_are_read_the_same_twice_encoded() -> None:
    """Some models encode the arguments twice."""
    inner = json.dumps({"path": "a\nb"})
    for text in (
        f'{{"name":"write_file","arguments":{json.dumps(inner)}}}',
        f'{{"arguments":{json.dumps(inner)},"name":"write_file"}}',
    ):
        assert parse(JSON, text).arguments == {"path": "a\nb"}
