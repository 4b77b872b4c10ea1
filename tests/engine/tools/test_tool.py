"""Reading `tools` (reference, request body)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pantheon.engine.tools import InvalidTools, read_tools
from tests.engine.tools.parses import function


def nested(depth: int) -> Any:
    """A schema of objects in objects."""
    schema: Any = {"type": "string"}
    for _ in range(depth):
        schema = {"items": schema}
    return schema


def test_the_first_of_two_tools_with_one_name_counts() -> None:
    """Scenario 40: duplicates."""
    first, second = function("read", {"a": {}}), function("read", {"b": {}})
    (tool,) = read_tools([first, second])
    assert tool.definition is first and tool.parameters == first["function"]["parameters"]


@pytest.mark.parametrize("name", ["github.search-issues", "søk", "a/b", "generator-mcp_get", "x:y"])
def test_names_of_any_kind(name: str) -> None:
    """Scenario 40: dots, dashes, slashes, Unicode."""
    assert read_tools([function(name)])[0].name == name


def test_what_may_be_left_out() -> None:
    """Description, parameters and their members, boolean schemas."""
    (tool,) = read_tools([{"type": "function", "function": {"name": "ping"}}])
    assert tool.description == "" and tool.parameters == {"type": "object", "properties": {}}
    entry = {"type": None, "function": {"name": "x", "description": None, "parameters": True}}
    assert read_tools([entry])[0].parameters is True
    assert len(read_tools([function(f"t{i}") for i in range(60)])) == 60


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (5, "tools[1] must be an object, found 5"),
        (None, "tools[1] must be an object, found null"),
        (True, "tools[1] must be an object, found true"),
        ({"function": None}, "tools[1] must have an object `function`, found null"),
        (
            {"function": {"name": None}},
            "tools[1] must have a non-empty string `function.name`, found null",
        ),
        (
            {"type": "web_search"},
            "tools[1] must have the type 'function', found the string 'web_search'",
        ),
        ({"type": "function"}, "tools[1] must have an object `function`, found nothing"),
        ({"function": []}, "tools[1] must have an object `function`, found an array"),
        (
            {"function": {"name": ""}},
            "tools[1] must have a non-empty string `function.name`, found the string ''",
        ),
        (
            {"function": {"name": "x" * 257}},
            "tools[1] may have a `function.name` of at most 256 characters, found 257",
        ),
        (
            {"function": {"name": "a>b"}},
            'tools[1] must have a `function.name` without control characters, <, > and ", '
            "found 'a>b'",
        ),
        (
            {"function": {"name": "x", "description": 1}},
            "tools[1] must have a string `function.description`, found 1",
        ),
        (
            {"function": {"name": "x", "parameters": "{}"}},
            "tools[1] must have a JSON Schema as `function.parameters`, found the string '{}'",
        ),
        (
            {"function": {"name": "x", "parameters": nested(1500)}},
            "tools[1] must have a `function.parameters` that nests at most 64 deep",
        ),
    ],
)
def test_an_entry_that_is_no_function_tool_is_refused(entry: Any, message: str) -> None:
    """The entry, the rule and what came."""
    with pytest.raises(InvalidTools) as caught:
        read_tools([function("ok"), entry])
    assert (str(caught.value), caught.value.index) == (message, 1)


def test_too_many_tools_are_refused() -> None:
    """As many as a body may hold, no more."""
    with pytest.raises(InvalidTools, match="at most 1024 entries, found 1025"):
        read_tools([function("t")] * 1025)


@given(
    st.lists(
        st.recursive(
            st.none() | st.booleans() | st.text(max_size=3),
            lambda inner: (
                st.lists(inner, max_size=2)
                | st.dictionaries(
                    st.sampled_from(["type", "function", "name", "parameters", "description"]),
                    inner,
                    max_size=4,
                )
            ),
        ),
        max_size=3,
    )
)
def test_any_entries_are_read_or_refused(entries: list[Any]) -> None:
    """Nothing but InvalidTools comes out."""
    try:
        tools = read_tools(entries)
    except InvalidTools as error:
        assert error.index is not None and f"tools[{error.index}]" in str(error)
    else:
        assert len(tools) <= len(entries)
