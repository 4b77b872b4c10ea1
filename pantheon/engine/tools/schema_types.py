"""Which JSON types a tool's schema allows for an argument.

Schemas are the client's: any JSON value may stand anywhere, references may be circular. What
cannot be understood allows everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

ALL_TYPES: Final = frozenset(("string", "integer", "number", "boolean", "null", "object", "array"))
MAX_STEPS: Final = 2048
"""Most subschemas looked at for one argument."""
MAX_DEPTH: Final = 32

_UNIONS: Final = ("anyOf", "oneOf")


@dataclass(frozen=True, slots=True)
class AllowedTypes:
    """Types that a value may have.

    Attributes:
        types: names of JSON Schema; integers are allowed where "number" is.
        declared: whether the schema names them; False where it says nothing and all are allowed.
        strings: the only strings allowed, or None for any.
    """

    types: frozenset[str]
    declared: bool
    strings: frozenset[str] | None = None


ANYTHING: Final = AllowedTypes(ALL_TYPES, declared=False)


def argument_types(parameters: Mapping[str, Any] | bool, key: str) -> AllowedTypes:
    """What a tool's schema allows for the argument `key`."""
    walk = _Walk(parameters)
    found = [
        walk.types(schema)
        for members in walk.objects(parameters)
        if (schema := _member_schema(members, key)) is not None
    ]
    return _either(found) if found else ANYTHING


def required_arguments(parameters: Mapping[str, Any] | bool) -> frozenset[str]:
    """Keys that every object of a tool's schema must have."""
    walk = _Walk(parameters)
    keys: set[str] = set()
    for members in walk.objects(parameters, every=True):
        required = members.get("required")
        if isinstance(required, Sequence) and not isinstance(required, str):
            keys.update(key for key in required if isinstance(key, str))
    return frozenset(keys)


def argument_schemas(parameters: Mapping[str, Any] | bool) -> Mapping[str, Sequence[Any]]:
    """The arguments that a tool's schema lists, in order, each with every schema it is given."""
    found: dict[str, list[Any]] = {}
    for members in _Walk(parameters).objects(parameters):
        properties = members.get("properties")
        if isinstance(properties, Mapping):
            for key, schema in properties.items():
                found.setdefault(key, []).append(schema)
    return found


def other_arguments(parameters: Mapping[str, Any] | bool) -> Any:
    """The schema of arguments that a tool's schema does not list; False where it lists all.

    That is so wherever it has `properties`: a model is to use those, though JSON Schema would
    allow others beside them.
    """
    others: Any = parameters is not False
    for members in _Walk(parameters).objects(parameters):
        properties = members.get("properties")
        if isinstance(properties, Mapping) and (
            properties or "additionalProperties" not in members
        ):
            return False
        if "additionalProperties" in members and others is not False:
            others = members["additionalProperties"]
    return others


def subschema(root: Any, reference: str) -> Any:
    """What stands at a JSON pointer into a schema (`#/$defs/x`); None where nothing does."""
    if not reference.startswith("#"):
        return None
    value = root
    for part in reference[1:].split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping):
            value = value.get(name)
        elif isinstance(value, Sequence) and name.isascii() and name.isdigit():
            index = int(name[:9])
            value = value[index] if index < len(value) else None
        else:
            return None
    return value


def _member_schema(members: Mapping[str, Any], key: str) -> Any:
    properties = members.get("properties")
    if isinstance(properties, Mapping) and key in properties:
        return properties[key]
    others = members.get("additionalProperties")
    return others if isinstance(others, Mapping) else None


class _Walk:
    """A bounded walk through the subschemas of one schema."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._steps = MAX_STEPS

    def objects(self, schema: Any, *, every: bool = False) -> Iterator[Mapping[str, Any]]:
        """The schema and those it is made of, through references and combinations.

        Args:
            schema: where to start.
            every: only those that every value must satisfy.
        """
        pending = [schema]
        while pending and self._steps > 0:
            self._steps -= 1
            schema = pending.pop(0)
            if not isinstance(schema, Mapping):
                continue
            yield schema
            if "$ref" in schema:
                pending.append(self._referred(schema["$ref"]))
            for keyword in ("allOf", *(() if every else _UNIONS)):
                pending.extend(_schemas(schema.get(keyword)))

    def types(self, schema: Any, depth: int = 0) -> AllowedTypes:
        """Types that a schema allows, `depth` subschemas below where the walk began."""
        self._steps -= 1
        if self._steps < 0 or depth == MAX_DEPTH or not isinstance(schema, Mapping):
            return ANYTHING
        allowed = _both(_by_type(schema), _by_value(schema))
        if "$ref" in schema:
            allowed = _both(allowed, self.types(self._referred(schema["$ref"]), depth + 1))
        for part in _schemas(schema.get("allOf")):
            allowed = _both(allowed, self.types(part, depth + 1))
        for keyword in _UNIONS:
            if parts := _schemas(schema.get(keyword)):
                allowed = _both(allowed, _either([self.types(part, depth + 1) for part in parts]))
        return allowed

    def _referred(self, reference: Any) -> Any:
        """The subschema at a JSON pointer into the same document; None elsewhere."""
        if not isinstance(reference, str):
            return None
        self._steps -= reference.count("/")
        return subschema(self._root, reference) if self._steps > 0 else None


def _schemas(value: Any) -> Sequence[Any]:
    return value if isinstance(value, Sequence) and not isinstance(value, str) else ()


def _by_type(schema: Mapping[str, Any]) -> AllowedTypes:
    kind = schema.get("type")
    names = [kind] if isinstance(kind, str) else _schemas(kind)
    types = {name for name in names if isinstance(name, str)}
    if not types or not types <= ALL_TYPES:
        return ANYTHING
    if schema.get("nullable") is True:
        types.add("null")
    return AllowedTypes(frozenset(types), declared=True)


def _by_value(schema: Mapping[str, Any]) -> AllowedTypes:
    """Types of the values that `enum` or `const` lists."""
    values = [schema["const"]] if "const" in schema else _schemas(schema.get("enum"))
    if not values:
        return ANYTHING
    strings = frozenset(value for value in values if isinstance(value, str))
    return AllowedTypes(frozenset(map(_type_of, values)), declared=True, strings=strings)


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, Mapping) else "array"


def _both(one: AllowedTypes, other: AllowedTypes) -> AllowedTypes:
    """What both allow; where that is nothing, what the first does."""
    if not other.declared:
        return one
    if not one.declared:
        return other
    types = _with_integers(one.types) & _with_integers(other.types)
    if "number" in types and "integer" in types:
        types -= {"integer"}
    if not types:
        return one
    strings = one.strings if other.strings is None else other.strings
    if one.strings is not None and other.strings is not None:
        strings = one.strings & other.strings
    return AllowedTypes(types, declared=True, strings=strings)


def _either(parts: Sequence[AllowedTypes]) -> AllowedTypes:
    if not all(part.declared for part in parts):
        return ANYTHING
    strings: frozenset[str] | None = frozenset()
    for part in parts:
        if "string" in part.types:
            strings = None if strings is None or part.strings is None else strings | part.strings
    types = frozenset[str]().union(*(part.types for part in parts))
    return AllowedTypes(types, declared=True, strings=strings if "string" in types else None)


def _with_integers(types: frozenset[str]) -> frozenset[str]:
    return types | {"integer"} if "number" in types else types
