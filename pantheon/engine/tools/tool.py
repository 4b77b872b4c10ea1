"""Tools that a request offers (reference, request body, `tools`)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

MAX_TOOLS: Final = 1024
MAX_NAME_CHARS: Final = 256
MAX_SCHEMA_DEPTH: Final = 64

_UNUSABLE_IN_NAMES: Final = re.compile(r'[\x00-\x1f\x7f<>"]')
"""No dialect could write a call of a name with one of these."""


_ABSENT: Final = object()
"""In the place of a member that was not sent."""


class InvalidTools(ValueError):
    """The `tools` of a request break a rule; the message names the entry, the rule and what came.

    Attributes:
        index: place of the entry, or None where the list as a whole breaks the rule.
    """

    def __init__(self, index: int | None, rule: str) -> None:
        super().__init__(f"tools[{index}] {rule}" if index is not None else f"tools {rule}")
        self.index = index


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool that the model may call.

    Attributes:
        name: matched exactly against the name in a call.
        description: empty where none is given.
        parameters: JSON Schema of the arguments, a mapping or a boolean.
        definition: the entry as it was sent.
    """

    name: str
    description: str
    parameters: Mapping[str, Any] | bool
    definition: Mapping[str, Any]


def read_tools(entries: Sequence[object]) -> tuple[Tool, ...]:
    """The offered tools in order; of several with one name the first counts.

    Args:
        entries: `tools` of the request, parsed JSON.

    Raises:
        InvalidTools: an entry is no function tool with a usable name, description and schema, or
            there are too many.
    """
    if len(entries) > MAX_TOOLS:
        raise InvalidTools(None, f"may have at most {MAX_TOOLS} entries, found {len(entries)}")
    tools: dict[str, Tool] = {}
    for index, entry in enumerate(entries):
        tool = _read(index, entry)
        tools.setdefault(tool.name, tool)
    return tuple(tools.values())


def _read(index: int, entry: object) -> Tool:
    if not isinstance(entry, Mapping):
        raise InvalidTools(index, f"must be an object, found {_kind(entry)}")
    kind = entry.get("type")
    # A null member counts as absent, as everywhere in a request.
    if kind not in (None, "function"):
        raise InvalidTools(index, f"must have the type 'function', found {_kind(kind)}")
    function = entry.get("function", _ABSENT)
    if not isinstance(function, Mapping):
        raise InvalidTools(index, f"must have an object `function`, found {_kind(function)}")
    description = function.get("description")
    if description is not None and not isinstance(description, str):
        raise InvalidTools(
            index, f"must have a string `function.description`, found {_kind(description)}"
        )
    parameters = function.get("parameters")
    if parameters is None:
        parameters = {"type": "object", "properties": {}}
    if not isinstance(parameters, Mapping | bool):
        raise InvalidTools(
            index, f"must have a JSON Schema as `function.parameters`, found {_kind(parameters)}"
        )
    if _is_deeper_than(parameters, MAX_SCHEMA_DEPTH):
        raise InvalidTools(
            index, f"must have a `function.parameters` that nests at most {MAX_SCHEMA_DEPTH} deep"
        )
    return Tool(
        _read_name(index, function.get("name", _ABSENT)), description or "", parameters, entry
    )


def _read_name(index: int, name: object) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidTools(
            index, f"must have a non-empty string `function.name`, found {_kind(name)}"
        )
    if len(name) > MAX_NAME_CHARS:
        raise InvalidTools(
            index,
            f"may have a `function.name` of at most {MAX_NAME_CHARS} characters, found {len(name)}",
        )
    if _UNUSABLE_IN_NAMES.search(name):
        raise InvalidTools(
            index,
            'must have a `function.name` without control characters, <, > and ", '
            f"found {name!r:.80}",
        )
    return name


def _kind(value: object) -> str:
    """What came, in JSON's words."""
    if value is _ABSENT:
        return "nothing"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str):
        return f"the string {value!r:.80}"
    if isinstance(value, Mapping):
        return "an object"
    return "an array" if isinstance(value, Sequence) else f"{value!r:.80}"


def _is_deeper_than(value: Any, limit: int) -> bool:
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > limit + 1:
            return True
        below: list[Any] = []
        for item in level:
            if isinstance(item, Mapping):
                below.extend(item.values())
            elif isinstance(item, Sequence) and not isinstance(item, str):
                below.extend(item)
        level = below
    return False
