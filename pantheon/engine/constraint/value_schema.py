"""JSON Schemas of arguments, reduced to what the grammar compiler takes and tools need.

Schemas are the client's: any JSON value may stand anywhere. What is left out makes the grammar
wider. In one thing it is narrower: an object has the properties that its schema lists, and others
only where the schema speaks of them. Strings are free but for listed values, as in the dialects
that write them without quotes: patterns and lengths cost much and say little.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pantheon.engine.constraint.satisfiable import has_values
from pantheon.engine.tools.schema_types import ALL_TYPES, subschema

MAX_SUBSCHEMAS: Final = 2048
MAX_DEPTH: Final = 64
MAX_LIST: Final = 1024
"""Most values of an enum, members of an object or branches of a union."""
MAX_ITEMS: Final = 64
"""Largest bound of an array's length that is enforced: the grammar grows with it."""

MAX_INTEGER: Final = 9 * 10**18
"""The integers up to it, and down to its negative, are what one without bounds may be."""
_MAX_BOUND: Final = 10**15
"""Largest bound of a number that is enforced."""
_MAX_DIVISOR: Final = 1000

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


_OPEN: Final = frozenset(
    ("additionalProperties", "patternProperties", "allOf", "anyOf", "oneOf", "$ref")
)
"""Keywords beside `properties` that may speak of further ones."""


class UnusableSchema(ValueError):
    """The schema has more parts than a grammar is made from, or no value fits it."""


@dataclass(slots=True)
class Allowance:
    """How much may yet be made into one grammar.

    Attributes:
        subschemas: parts of schemas.
        arguments: arguments of tools.
        lost: keywords that restrict values and were left out.
    """

    subschemas: int = 1 << 16
    arguments: int = 1 << 12
    lost: set[str] = field(default_factory=set)


def reduced(
    schema: Any, root: Any, allowance: Allowance, prefix: str = ""
) -> dict[str, Any] | bool:
    """A schema as a document of its own, with those it refers to.

    Args:
        schema: a subschema of `root`.
        root: the document that references point into.
        allowance: of the grammar that it is for.
        prefix: begins the names in `$defs`, so that documents can be merged.

    Raises:
        UnusableSchema: it has too many parts, or its values never end.
    """
    reduction = _Reduction(root, allowance, prefix)
    result = reduction.member(schema)
    definitions = reduction.definitions()
    if not has_values(result, definitions):
        raise UnusableSchema("no value fits the schema")
    if isinstance(result, dict) and definitions:
        return {**result, "$defs": definitions}
    return result


class _Reduction:
    """One document in the making."""

    def __init__(self, root: Any, allowance: Allowance, prefix: str) -> None:
        self._root = root
        self._allowance = allowance
        self._prefix = prefix
        self._left = MAX_SUBSCHEMAS
        self._names: dict[str, str] = {}
        self._handlers: Mapping[str, Callable[[Any, int], Any]] = {
            "type": self._type,
            "enum": self._enum,
            "const": lambda value, depth: self._enum([value], depth),
            "properties": self._properties,
            "required": lambda value, _: [key for key in _list(value) if isinstance(key, str)],
            "additionalProperties": self.member,
            "items": self._items,
            "prefixItems": self._schemas,
            "anyOf": self._schemas,
            "oneOf": self._schemas,
            "allOf": self._schemas,
            "$ref": self._reference,
            "minItems": self._length,
            "maxItems": self._length,
            "multipleOf": lambda value, _: (
                value if _is_number(value) and 0 < value <= _MAX_DIVISOR else None
            ),
        }

    def definitions(self) -> dict[str, Any]:
        """The schemas referred to so far, and those that they refer to."""
        found: dict[str, Any] = {}
        while len(found) < len(self._names):
            for reference, name in list(self._names.items())[len(found) :]:
                found[name] = self.schema(subschema(self._root, reference))
        return found

    def schema(self, value: Any, depth: int = 0) -> dict[str, Any] | bool:
        """The schema without what the compiler does not take."""
        self._left -= 1
        self._allowance.subschemas -= 1
        if min(self._left, self._allowance.subschemas) < 0:
            raise UnusableSchema("a schema has more parts than a grammar is made from")
        if isinstance(value, bool):
            return value
        if not isinstance(value, Mapping) or depth == MAX_DEPTH:
            return True
        result: dict[str, Any] = {}
        for keyword, handle in self._handlers.items():
            if keyword not in value:
                continue
            handled = handle(value[keyword], depth + 1)
            if handled is None:
                self._allowance.lost.add(keyword)
            else:
                result["enum" if keyword == "const" else keyword] = handled
        self._allowance.lost |= _LEFT_OUT & value.keys()
        if "patternProperties" in value:
            result.pop("additionalProperties", None)
        if isinstance(value.get("items"), Sequence):
            result["prefixItems"] = result.pop("items", [])
        if "type" not in result and "properties" in result:
            result["type"] = "object"
        if value.get("nullable") is True and "type" in result:
            result["type"] = [*_list(result["type"]), "null"]
        return result | self._bounds(value, set(_list(result.get("type"))))

    def member(self, value: Any, depth: int = 0) -> dict[str, Any] | bool:
        """The same for a value that this schema alone describes."""
        result = self.schema(value, depth)
        if isinstance(result, bool) or not result.get("properties"):
            return result
        is_open = not _OPEN.isdisjoint(value) or not result["properties"].keys() >= set(
            result.get("required", ())
        )
        return result if is_open else {**result, "additionalProperties": False}

    def _bounds(self, value: Mapping[str, Any], types: set[str]) -> dict[str, Any]:
        """Bounds of a number. Integers always have them: a model could write digits forever."""
        bounds = {
            keyword: value[keyword]
            for keyword in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
            if _is_number(value.get(keyword)) and abs(value[keyword]) <= MAX_INTEGER
        }
        if "integer" in types and "number" not in types:
            least = [math.ceil(bounds.get("minimum", -MAX_INTEGER))]
            most = [math.floor(bounds.get("maximum", MAX_INTEGER))]
            if "exclusiveMinimum" in bounds:
                least.append(math.floor(bounds["exclusiveMinimum"]) + 1)
            if "exclusiveMaximum" in bounds:
                most.append(math.ceil(bounds["exclusiveMaximum"]) - 1)
            return {"minimum": max(least), "maximum": min(most)}
        return {key: bound for key, bound in bounds.items() if abs(bound) <= _MAX_BOUND}

    def _type(self, value: Any, _: int) -> Any:
        names = [value] if isinstance(value, str) else _list(value)
        known = list(dict.fromkeys(name for name in names if name in ALL_TYPES))
        if not known or len(known) < len(names):
            return None
        return known[0] if len(known) == 1 else known

    def _enum(self, value: Any, _: int) -> Any:
        values = [item for item in _list(value) if _is_json(item)]
        return values if 0 < len(values) <= MAX_LIST else None

    def _properties(self, value: Any, depth: int) -> Any:
        if not isinstance(value, Mapping) or len(value) > MAX_LIST:
            return None
        return {key: self.member(item, depth) for key, item in value.items() if is_text(key)}

    def _items(self, value: Any, depth: int) -> Any:
        is_list = isinstance(value, Sequence) and not isinstance(value, str)
        return self._schemas(value, depth) if is_list else self.member(value, depth)

    def _schemas(self, value: Any, depth: int) -> Any:
        parts = _list(value)
        if not 0 < len(parts) <= MAX_ITEMS:
            return None
        return [self.schema(part, depth) for part in parts]

    def _reference(self, value: Any, _: int) -> Any:
        if not isinstance(value, str) or subschema(self._root, value) is None:
            return None
        name = self._names.setdefault(value, f"{self._prefix}d{len(self._names)}")
        return f"#/$defs/{name}"

    def _length(self, value: Any, _: int) -> Any:
        is_usable = isinstance(value, int) and not isinstance(value, bool)
        return value if is_usable and 0 <= value <= MAX_ITEMS else None


def is_text(value: object) -> bool:
    """Whether a value is a string without lone surrogates."""
    if not isinstance(value, str):
        return False
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _list(value: Any) -> Sequence[Any]:
    if isinstance(value, str):
        return [value]
    return value if isinstance(value, Sequence) else ()


def _is_number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _is_json(value: Any) -> bool:
    """Whether a value can be written as JSON text, and read again by any reader."""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    except ValueError:
        return False
    return is_text(text)
