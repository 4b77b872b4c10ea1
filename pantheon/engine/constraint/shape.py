"""Values of one kind: what is left of JSON Schemas that one value must all fit.

Schemas are the client's: any JSON value may stand anywhere. What is left out makes the shape
wider. In one thing it is narrower: an object has the properties that its schemas list, and others
only where they speak of them. Strings are free but for listed values, as in the dialects that
write them without quotes: patterns and lengths cost much and say little.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from pantheon.engine.constraint.number_keywords import (
    bounds_of,
    integers_between,
    is_number,
    steps_of,
)
from pantheon.engine.constraint.number_text import Bound
from pantheon.engine.tools.json_reader import json_value
from pantheon.engine.tools.schema_types import ALL_TYPES

MAX_LIST: Final = 1024
"""Most values of an enum or members of an object."""
MAX_ITEMS: Final = 64
"""Largest bound of an array's length that is enforced: the grammar grows with it."""
_LEFT_OUT: Final = frozenset(
    (
        "$dynamicRef",
        "$recursiveRef",
        "contains",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "else",
        "format",
        "if",
        "maxContains",
        "maxLength",
        "maxProperties",
        "minContains",
        "minLength",
        "minProperties",
        "not",
        "pattern",
        "patternProperties",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
        "uniqueItems",
    )
)
"""Keywords that restrict values and are not enforced."""

Schemas = tuple[Any, ...]
"""Schemas that one value must all fit; none for any value."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a value may be.

    Attributes:
        types: names of JSON Schema, without "integer" where "number" is.
        values: the only values, or None for any of the types.
        low, high: bounds of a number.
        divisor: an integer is a multiple of it.
        digits: most digits of a number behind the point; None for any.
        properties: of an object, in order, each with its schemas.
        required: keys of an object.
        others: schemas of any further property; None where there is none.
        first: schemas of an array's first items.
        items: schemas of its further items; None where there is none.
        least, most: its length.
    """

    types: frozenset[str]
    values: tuple[Any, ...] | None
    low: Bound | None
    high: Bound | None
    divisor: int
    digits: int | None
    properties: Mapping[str, Schemas]
    required: frozenset[str]
    others: Schemas | None
    first: tuple[Schemas, ...]
    items: Schemas | None
    least: int
    most: int | None


def shape_of(schemas: Sequence[Mapping[str, Any]], lost: set[str]) -> Shape | None:
    """The shape of values that fit all schemas; None where types and values leave none.

    Args:
        schemas: of which references and combinations are not looked at.
        lost: takes the keywords that restrict values and are not enforced.
    """
    for schema in schemas:
        lost |= _LEFT_OUT & schema.keys()
    types = _types(schemas, lost)
    low, high = bounds_of(schemas, types, lost)
    divisor, digits = steps_of(schemas, lost)
    if digits == 0 and "number" in types:
        types = types - {"number"} | {"integer"}
    if integers_between(low, high, divisor) is None:
        types -= {"integer"}
    if low is not None and high is not None and not _is_between(low.value, None, high):
        types -= {"number"}
    values = _values(schemas, types, lost)
    if values is not None:
        values = tuple(value for value in values if _is_between(value, low, high))
    if not types or values == ():
        return None
    properties, others = _properties(schemas, lost)
    first, items = _items(schemas, lost)
    least = max([0, *(_length(schema, "minItems", lost) or 0 for schema in schemas)])
    lengths = [_length(schema, "maxItems", lost) for schema in schemas]
    return Shape(
        types,
        values,
        low,
        high,
        divisor,
        digits,
        properties,
        frozenset(key for schema in schemas for key in _required(schema)),
        others,
        first,
        items,
        least,
        min((length for length in lengths if length is not None), default=None),
    )


def is_text(value: object) -> bool:
    """Whether a value is a string without lone surrogates."""
    if not isinstance(value, str):
        return False
    return not any("\ud800" <= character <= "\udfff" for character in value)


def as_list(value: Any) -> Sequence[Any]:
    """A value that should be a list; empty if it is none."""
    return value if isinstance(value, Sequence) and not isinstance(value, str) else ()


def _required(schema: Mapping[str, Any]) -> list[str]:
    return [key for key in as_list(schema.get("required")) if is_text(key)]


def _types(schemas: Sequence[Mapping[str, Any]], lost: set[str]) -> frozenset[str]:
    types, is_declared = ALL_TYPES - {"integer"}, False
    for schema in schemas:
        given = schema.get("type")
        names = [given] if isinstance(given, str) else as_list(given)
        if not names or not all(isinstance(name, str) and name in ALL_TYPES for name in names):
            lost |= {"type"} & schema.keys()
            continue
        is_declared = True
        allowed = {*names, *(["null"] if schema.get("nullable") is True else [])}
        both = types & allowed
        if "number" in types and "number" not in allowed:
            both |= {"integer"} & allowed
        if "number" in allowed:
            both |= {"integer"} & types
        types = both
    if not is_declared:
        for keyword, kind in (("properties", "object"), ("items", "array")):
            if any(keyword in schema for schema in schemas):
                return frozenset((kind,))
    return types


def _values(
    schemas: Sequence[Mapping[str, Any]], types: frozenset[str], lost: set[str]
) -> tuple[Any, ...] | None:
    found: dict[str, Any] | None = None
    for schema in schemas:
        for keyword in {"enum", "const"} & schema.keys():
            given = as_list(schema["enum"]) if keyword == "enum" else [schema["const"]]
            texts = {text: value for value in given if (text := _json(value)) is not None}
            if not 0 < len(texts) <= MAX_LIST:
                lost.add(keyword)
            elif found is None:
                found = {text: value for text, value in texts.items() if _type_of(value) & types}
            else:
                found = {text: value for text, value in found.items() if text in texts}
    return None if found is None else tuple(found.values())


def _properties(
    schemas: Sequence[Mapping[str, Any]], lost: set[str]
) -> tuple[dict[str, Schemas], Schemas | None]:
    """The properties of objects, and what further ones are."""
    members: list[tuple[Mapping[str, Any], Any]] = []
    for schema in schemas:
        given = schema.get("properties", {})
        if not isinstance(given, Mapping) or len(given) > MAX_LIST:
            lost.add("properties")
            continue
        # Keys that match a pattern are others too.
        is_open = "patternProperties" in schema
        members.append((given, True if is_open else schema.get("additionalProperties")))
    keys = [key for given, _ in members for key in given]
    keys += [key for schema in schemas for key in _required(schema)]
    properties: dict[str, Schemas] = {}
    for key in dict.fromkeys(filter(is_text, keys)):
        parts = (given.get(key, further) for given, further in members)
        properties[key] = conjunction(part for part in parts if part is not None)
    spoken = [further for _, further in members if further is not None]
    if not spoken and any(given for given, _ in members):
        return properties, None
    others = conjunction(spoken)
    return properties, None if False in others else others


def _items(
    schemas: Sequence[Mapping[str, Any]], lost: set[str]
) -> tuple[tuple[Schemas, ...], Schemas | None]:
    """The first items of arrays, and what further ones are."""
    tuples: list[tuple[Sequence[Any], Any]] = []
    for schema in schemas:
        first, further = as_list(schema.get("prefixItems")), schema.get("items", True)
        if isinstance(further, Sequence) and not isinstance(further, str):
            first, further = further, schema.get("additionalItems", True)
        if len(first) > MAX_ITEMS:
            lost.add("prefixItems")
            first = ()
        tuples.append((first, further))
    count = max((len(first) for first, _ in tuples), default=0)
    firsts = tuple(
        conjunction(first[index] if index < len(first) else rest for first, rest in tuples)
        for index in range(count)
    )
    items = conjunction(rest for _, rest in tuples)
    return firsts, None if False in items else items


def conjunction(parts: Any) -> Schemas:
    """Schemas without those that say nothing, and each only once."""
    found: dict[int, Any] = {}
    for part in parts:
        if part is False:
            return (False,)
        if isinstance(part, Mapping) and part:
            found[id(part)] = part
    return tuple(found.values())


def _length(schema: Mapping[str, Any], keyword: str, lost: set[str]) -> int | None:
    value = schema.get(keyword)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_ITEMS:
        return value
    lost |= {keyword} & schema.keys()
    return None


def _type_of(value: Any) -> frozenset[str]:
    """Types whose values it is one of, as shapes name them."""
    if value is None:
        return frozenset(("null",))
    if isinstance(value, bool):
        return frozenset(("boolean",))
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return frozenset(("integer", "number"))
    if isinstance(value, float):
        return frozenset(("number",))
    if isinstance(value, str):
        return frozenset(("string",))
    return frozenset(("object" if isinstance(value, Mapping) else "array",))


def _is_between(value: Any, low: Bound | None, high: Bound | None) -> bool:
    """Whether a value is no number or one within bounds."""
    if not is_number(value):
        return True
    number = Decimal(str(value))
    if low is not None and (number < low.value or (low.is_open and number == low.value)):
        return False
    return high is None or number < high.value or (number == high.value and not high.is_open)


def _json(value: Any) -> str | None:
    """A value as JSON text that any reader takes, or None."""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False, sort_keys=True)
    except (ValueError, TypeError, RecursionError):
        return None
    is_readable = is_text(text) and (isinstance(value, str) or json_value(text) is not None)
    return text if is_readable else None
