"""JSON Schemas as clients send them, bounded before anything is compiled from them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

MAX_SCHEMA_CHARS: Final = 1 << 16
MAX_SCHEMA_DEPTH: Final = 64


class UnsupportedSchema(ValueError):
    """A schema from which no grammar can be made; the message says why."""


def object_schema(schema: Mapping[str, Any]) -> str:
    """The text of a schema that every JSON object fits that fits the given one.

    Raises:
        UnsupportedSchema: it is too large or too deep, or no object fits it.
    """
    depth = _depth(schema)
    if depth > MAX_SCHEMA_DEPTH:
        raise UnsupportedSchema(
            f"a JSON schema may nest at most {MAX_SCHEMA_DEPTH} deep, found {depth} or more"
        )
    kind = schema.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        raise UnsupportedSchema(
            f"the JSON schema of an answer must have the type object, found {kind!r:.80}"
        )
    # Options for the compiler are not the client's to set.
    members = {key: value for key, value in schema.items() if key != "x-guidance"}
    text = json.dumps({**members, "type": "object"}, separators=(",", ":"))
    if len(text) > MAX_SCHEMA_CHARS:
        raise UnsupportedSchema(
            f"a JSON schema may have at most {MAX_SCHEMA_CHARS} characters, found {len(text)}"
        )
    return text


def mixes_bounds(schema: str) -> bool:
    """Whether a number is bounded exclusively on one side and inclusively on the other.

    The grammar compiler takes the exclusive bound for an inclusive one there.

    Args:
        schema: text that `object_schema` returned.
    """
    pairs = (("exclusiveMinimum", "maximum"), ("exclusiveMaximum", "minimum"))
    open_values: list[Any] = [json.loads(schema)]
    while open_values:
        value = open_values.pop()
        if isinstance(value, dict):
            if any(one in value and other in value for one, other in pairs):
                return True
            open_values.extend(value.values())
        elif isinstance(value, list):
            open_values.extend(value)
    return False


def _depth(value: Any) -> int:
    """Nesting of lists and objects, counted no further than one beyond the bound."""
    level, depth = [value], 0
    while level and depth <= MAX_SCHEMA_DEPTH:
        below: list[Any] = []
        for item in level:
            if isinstance(item, Mapping):
                below.extend(item.values())
            elif isinstance(item, Sequence) and not isinstance(item, str):
                below.extend(item)
        depth += 1
        level = below
    return depth
