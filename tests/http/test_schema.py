"""Errors of validation name the field, what was expected and what came."""

from __future__ import annotations

import time
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from pantheon.generated.routes import REQUEST_SCHEMAS
from pantheon.http.errors import RequestRefused
from pantheon.http.schema import RequestSchemas, describe

MESSAGES: list[dict[str, str]] = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def schemas() -> RequestSchemas:
    return RequestSchemas(REQUEST_SCHEMAS)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([], "expected object, got array"),
        (None, "expected object, got null"),
        (True, "expected object, got boolean"),
        ({}, "expected the field messages, got none"),
        ({"messages": []}, "messages: expected at least 1 item, got 0"),
        ({"messages": None}, "messages: expected array, got null"),
        ({"messages": {}}, "messages: expected array, got object"),
        ({"messages": [None]}, "messages[0]: expected object, got null"),
        ({"messages": [*MESSAGES, {"reasoning_content": 7}]},
         "messages[1].reasoning_content: expected string or null, got integer"),
        ({"messages": MESSAGES, "temperature": "x"},
         "temperature: expected number or null, got string"),
        ({"messages": MESSAGES, "max_tokens": 1.5},
         "max_tokens: expected integer or null, got number"),
        ({"messages": MESSAGES, "stop": ["a", 1]}, "stop[1]: expected string, got integer"),
        ({"messages": MESSAGES, "stream_options": 5},
         "stream_options: expected object or null, got integer"),
        ({"messages": MESSAGES, "stream_options": {"include_usage": "yes"}},
         "stream_options.include_usage: expected boolean or null, got string"),
    ],
)  # fmt: skip
def test_wrong_field_is_named(schemas: RequestSchemas, body: Any, message: str) -> None:
    with pytest.raises(RequestRefused) as caught:
        schemas.check("create_chat_completion", body)
    assert caught.value.answer.status == 400
    assert caught.value.answer.message == message


@pytest.mark.parametrize(
    "fields",
    [
        {"content": None},
        {"content": [{"type": "text", "text": "x"}]},
        {"content": 7},
        {"role": None},
        {"unknown": {"deep": [1]}},
    ],
)
def test_message_that_the_reference_takes_is_valid(
    schemas: RequestSchemas, fields: dict[str, Any]
) -> None:
    """Reference, `messages`: content of another type is read as empty, a missing role is user."""
    schemas.check("create_chat_completion", {"messages": [fields]})


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        ({"enum": ["a", None]}, "b", 'expected one of "a", null, got "b"'),
        ({"maxItems": 1}, [1, 2], "expected at most 1 item, got 2"),
        ({"minLength": 1}, "", "expected at least 1 character, got 0"),
        ({"minProperties": 1}, {}, "expected at least 1 member, got 0"),
        ({"maxItems": 0}, [1], "expected at most 0 items, got 1"),
        ({"maxLength": 2}, "abc", "expected at most 2 characters, got 3"),
        ({"minimum": 1}, 0, "expected a number of at least 1, got 0"),
        ({"maximum": 1}, 2, "expected a number of at most 1, got 2"),
        ({"pattern": "^a$"}, "b", 'expected a value with pattern "^a$", got "b"'),
        ({"pattern": "^a$", "x-pantheon-pattern": "an a"}, "b", 'expected an a, got "b"'),
        (
            {"oneOf": [{"type": "object", "required": ["a"]}, {"type": "null"}]},
            {},
            "expected the field a, got none",
        ),
    ],
)
def test_every_rule_has_words(schema: dict[str, Any], value: Any, message: str) -> None:
    (error,) = Draft202012Validator(schema).iter_errors(value)
    assert describe(error) == message


def test_a_bad_name_of_a_tool_is_refused_in_words(schemas: RequestSchemas) -> None:
    """Reference, 400: no regular expression for people to read."""
    tools = [{"type": "function", "function": {"name": "a<b"}}]
    with pytest.raises(RequestRefused) as caught:
        schemas.check("create_chat_completion", {"messages": [{}], "tools": tools})
    assert "tools[0].function.name: expected a name without control characters" in str(caught.value)


def test_message_is_bounded() -> None:
    (error,) = Draft202012Validator({"enum": ["x" * 5000]}).iter_errors("y" * 5000)
    assert len(describe(error)) < 500


def test_long_arrays_of_integers_are_checked_quickly(schemas: RequestSchemas) -> None:
    """As many tokens as a body may hold values; one by one they would take seconds."""
    tokens: list[object] = [1, 2.0] * 200_000
    body = {"blob": "", "tokens": tokens}
    started = time.monotonic()
    schemas.check("restore_session", body)
    assert time.monotonic() - started < 2
    for wrong, kind in ((1.5, "number"), ("1", "string"), (None, "null"), (True, "boolean")):
        tokens[399_999] = wrong
        with pytest.raises(RequestRefused, match=rf"tokens\[399999\]: .*integer, got {kind}"):
            schemas.check("restore_session", body)
