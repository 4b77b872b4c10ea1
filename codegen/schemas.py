"""Which JSON Schema the models can express, and how schemas are handed to the model generator."""

from __future__ import annotations

import copy
import keyword
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from codegen.document import Document, JsonObject, Node, UnsupportedSpec

KEYWORDS = (
    "$ref",
    "type",
    "enum",
    "const",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "anyOf",
    "oneOf",
    "minItems",
    "maxItems",
    "maxProperties",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "pattern",
    "contentEncoding",
    "default",
    "description",
)
CONSTRAINTS = (
    "minItems",
    "maxItems",
    "maxProperties",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "pattern",
)
SCHEMA_PREFIX = "#/components/schemas/"
# Widest docstring line that fits 100 columns after an indentation of 4 and six quotes.
DOCSTRING_WIDTH = 88


def component_schemas(document: Document) -> Mapping[str, Node]:
    """The schemas under `components`, each checked to be expressible as a model.

    Raises:
        UnsupportedSpec: a keyword that the models cannot express.
    """
    components = document.root.child("components")
    components.allow("schemas", "responses", "parameters", "headers", what="components")
    if "schemas" not in components.value:
        raise UnsupportedSpec("/components", "expected 'schemas'")
    schemas = components.child("schemas").members()
    for name, schema in schemas.items():
        if not name.isidentifier() or not name[0].isupper():
            raise UnsupportedSpec(schema.pointer, "a schema's name must be a class name")
        _check(document, schema, named=True)
    return schemas


def reference_name(document: Document, node: Node) -> str:
    """The name of the component schema that `node` refers to.

    Raises:
        UnsupportedSpec: `node` is not a reference to a component schema.
    """
    value = node.value
    if not isinstance(value, dict) or not str(value.get("$ref", "")).startswith(SCHEMA_PREFIX):
        raise UnsupportedSpec(
            node.pointer,
            f"expected a reference to {SCHEMA_PREFIX}..., so that the model has a name",
        )
    document.resolve(node)
    return str(value["$ref"]).removeprefix(SCHEMA_PREFIX)


def reachable(document: Document, names: Iterable[str]) -> frozenset[str]:
    """The component schemas that `names` lead to, themselves included."""
    schemas = document.root.child("components").child("schemas")
    found: set[str] = set()
    queue = list(names)
    while queue:
        name = queue.pop()
        if name not in found:
            found.add(name)
            queue.extend(_references(schemas.child(name).value))
    return frozenset(found)


def model_input(
    schemas: Mapping[str, Node], requested: frozenset[str], returned: frozenset[str]
) -> JsonObject:
    """The document from which the models are generated.

    It differs from the spec in what is settled before or after a model exists: constraints are
    left out, since bodies are validated against the spec itself; a null member of a request is
    dropped before its model is made, so request models have no None; a property with a default is
    never unset, unless `x-pantheon-keep-unset` asks for it; an object is kept as it was sent where
    `x-pantheon-keep-raw` asks for it; text in base64 is held as its bytes; descriptions are
    wrapped.

    Raises:
        UnsupportedSpec: a schema that holds null is used both in requests and in responses, or
            one that is not only in requests holds text in base64.
    """
    prepared: JsonObject = {}
    for name, schema in schemas.items():
        in_request = name in requested
        if in_request and name in returned and _without_null(schema.value) != schema.value:
            raise UnsupportedSpec(
                schema.pointer,
                "null means absent in requests and null in responses; use two schemas",
            )
        if name in returned or not in_request:
            _refuse_base64(schema)
        prepared[name] = _prepare(schema.value, in_request)
    return {
        "openapi": "3.1.0",
        "info": {"title": "models", "version": "1"},
        "paths": {},
        "components": {"schemas": prepared},
    }


def _check(document: Document, schema: Node, named: bool) -> None:
    schema.allow(*KEYWORDS, what="a schema")
    value = schema.value
    if "$ref" in value:
        reference_name(document, schema)
        return
    for choice in ("anyOf", "oneOf"):
        if choice in value:
            for member in schema.child(choice).items():
                _check(document, member, named=False)
    if "properties" in value:
        if not named:
            raise UnsupportedSpec(
                schema.child("properties").pointer,
                f"an object with properties must be a schema of its own under {SCHEMA_PREFIX}",
            )
        for name, member in schema.child("properties").members().items():
            if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
                raise UnsupportedSpec(member.pointer, "a property's name must be a field's name")
            _check(document, member, named=False)
    if "items" in value:
        _check(document, schema.child("items"), named=False)
    if isinstance(value.get("additionalProperties"), dict):
        _check(document, schema.child("additionalProperties"), named=False)
    if value.get("contentEncoding", "base64") != "base64":
        raise UnsupportedSpec(
            schema.child("contentEncoding").pointer,
            f"expected base64, found {value['contentEncoding']!r}",
        )


def _refuse_base64(schema: Node) -> None:
    members = schema.child("properties").members() if "properties" in schema.value else {}
    for member in members.values():
        if "contentEncoding" in member.value:
            raise UnsupportedSpec(
                member.child("contentEncoding").pointer, "only a request's text is read as bytes"
            )


def _references(value: Any) -> list[str]:
    if isinstance(value, list):
        return [name for item in value for name in _references(item)]
    if not isinstance(value, dict):
        return []
    reference = value.get("$ref")
    if isinstance(reference, str):
        return [reference.removeprefix(SCHEMA_PREFIX)]
    return [name for member in value.values() for name in _references(member)]


def _prepare(schema: JsonObject, in_request: bool) -> JsonObject:
    if schema.get("x-pantheon-keep-raw"):
        return {"type": "object"}
    result = copy.deepcopy(schema)
    if in_request:
        result = _without_null(result)
    for constraint in CONSTRAINTS:
        result.pop(constraint, None)
    if "description" in result:
        result["description"] = textwrap.fill(result["description"], DOCSTRING_WIDTH)
    if result.pop("contentEncoding", None):
        # What the generator knows bytes by.
        result["format"] = "binary"
    if result.pop("x-pantheon-keep-unset", False):
        result.pop("default", None)
    for applicator in ("items", "additionalProperties"):
        if isinstance(result.get(applicator), dict):
            result[applicator] = _prepare(result[applicator], in_request)
    if "properties" in result:
        required = set(result.get("required", ()))
        result["properties"] = {
            name: _prepare_property(member, in_request, name in required)
            for name, member in result["properties"].items()
        }
        result["required"] = [
            name
            for name, member in result["properties"].items()
            if name in required or "default" in member
        ]
    return result


def _prepare_property(schema: JsonObject, in_request: bool, required: bool) -> JsonObject:
    result = _prepare(schema, in_request)
    if result.get("type") == "number" and "default" in result:
        result["default"] = float(result["default"])
    if "const" in result:
        result["enum"] = [result.pop("const")]
    # The only value that a required property can have need not be given.
    values = [None] if result.get("type") == "null" else result.get("enum", [])
    if required and len(values) == 1:
        result["default"] = values[0]
    return result


def _without_null(schema: JsonObject) -> JsonObject:
    """A copy of `schema` in which no property may be null."""
    result = dict(schema)
    if isinstance(result.get("type"), list):
        types = [name for name in result["type"] if name != "null"]
        result["type"] = types[0] if len(types) == 1 else types
    if "enum" in result:
        result["enum"] = [value for value in result["enum"] if value is not None]
    for choice in ("anyOf", "oneOf"):
        if choice in result:
            members = [member for member in result.pop(choice) if member != {"type": "null"}]
            result |= members[0] if len(members) == 1 else {choice: members}
    if "properties" in result:
        result["properties"] = {
            name: _without_null(member) for name, member in result["properties"].items()
        }
    return result
