"""`response_format` and its five statuses (reference, `response_format_status`)."""

from __future__ import annotations

from typing import Any

import pytest

from pantheon.engine import JsonFormat
from pantheon.generated.models import ChatCompletionParams
from pantheon.generated.parsing import to_model
from pantheon.handlers.response_format import FormatPlan, read_response_format

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
WITH_SCHEMA = {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}}
TOOLS = [{"type": "function", "function": {"name": "f"}}]


def plan(enforce_schema: bool = False, **fields: Any) -> FormatPlan:
    body = {"messages": [{"role": "user", "content": "hi"}], **fields}
    return read_response_format(to_model(body, ChatCompletionParams), enforce_schema)


@pytest.mark.parametrize("fields", [{}, {"response_format": None}])
def test_without_a_format_there_is_no_status(fields: dict[str, Any]) -> None:
    assert plan(**fields) == FormatPlan(None, None)
    assert plan(**fields).status_after(None) is None


@pytest.mark.parametrize(
    ("wanted", "constraint", "status"),
    [
        ({"type": "text"}, None, "applied"),
        ({"type": "json_object"}, JsonFormat(), "applied"),
        (WITH_SCHEMA, JsonFormat(), "schema_downgraded"),
        ({"type": "json_schema"}, JsonFormat(), "schema_downgraded"),
        ({"type": "grammar"}, None, "ignored_unknown_type"),
        ({"type": None}, None, "ignored_unknown_type"),
        ({}, None, "ignored_unknown_type"),
    ],
)
def test_format_by_its_type(wanted: Any, constraint: JsonFormat | None, status: Any) -> None:
    assert plan(response_format=wanted) == FormatPlan(constraint, status)


def test_schema_is_enforced_where_the_setting_says_so() -> None:
    """An addition to the reference: PANTHEON_JSON_SCHEMA=1."""
    enforced = plan(enforce_schema=True, response_format=WITH_SCHEMA)
    assert enforced == FormatPlan(JsonFormat(SCHEMA), "applied")


@pytest.mark.parametrize("given_schema", [{}, {"schema": None}, {"schema": True}, {"schema": 7}])
def test_format_without_a_schema_is_downgraded_all_the_same(given_schema: Any) -> None:
    wanted = {"type": "json_schema", "json_schema": given_schema}
    downgraded = FormatPlan(JsonFormat(), "schema_downgraded")
    assert plan(enforce_schema=True, response_format=wanted) == downgraded


@pytest.mark.parametrize("kind", ["text", "json_object", "json_schema", "grammar"])
def test_tools_win_over_a_format(kind: str) -> None:
    """Reference, tool calling: when the request carries tools, tools win."""
    expected = FormatPlan(None, "ignored_tools_present")
    assert plan(response_format={"type": kind}, tools=TOOLS) == expected


@pytest.mark.parametrize("fields", [{"tools": []}, {"tools": TOOLS, "tool_choice": "none"}])
def test_tools_that_are_none_do_not_win(fields: dict[str, Any]) -> None:
    """Reference, `tools`: ignored when `tool_choice` is "none"."""
    assert plan(response_format={"type": "json_object"}, **fields).status == "applied"


@pytest.mark.parametrize("closed", [True, False, None])
def test_only_a_constraint_can_be_not_enforced(closed: bool | None) -> None:
    for wanted in ({"type": "json_object"}, WITH_SCHEMA):
        armed = plan(response_format=wanted)
        expected = "not_enforced" if closed is False else armed.status
        assert armed.status_after(closed) == expected
    for wanted in ({"type": "text"}, {"type": "grammar"}):
        ignored = plan(response_format=wanted)
        assert ignored.status_after(closed) == ignored.status


def test_a_schema_that_is_enforced_in_part_is_downgraded() -> None:
    """`applied` would be untrue; an answer that did not close is `not_enforced` all the same."""
    armed = FormatPlan(JsonFormat({"type": "object"}), "applied")
    assert armed.status_after(True, relaxed=True) == "schema_downgraded"
    assert armed.status_after(False, relaxed=True) == "not_enforced"
    assert armed.status_after(True) == "applied"
