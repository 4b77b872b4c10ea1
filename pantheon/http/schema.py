"""Request bodies against their schemas, with errors that name the field."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from typing import Any, Final

from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import ValidationError
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from pantheon.http.errors import RequestRefused

_DOCUMENT_URI: Final = "urn:pantheon:openapi"
_MAX_MESSAGE: Final = 400
_PATTERN_WORDS: Final = "x-pantheon-pattern"
"""What strings of a pattern are, for people."""
_JSON_TYPES: Final[Mapping[type[Any], str]] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


def _items(validator: Any, items: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    """The keyword `items`, quick where it asks for integers alone.

    An array of tokens may have hundreds of thousands of them, and looking at each with the general
    means takes seconds. Only those that are no integers are looked at so.
    """
    if not isinstance(instance, list):
        return
    are_integers = items == {"type": "integer"}
    for index, item in enumerate(instance):
        if not (are_integers and _is_integer(item)):
            yield from validator.descend(item, items, path=index)


def _is_integer(item: Any) -> bool:
    return type(item) is int or (type(item) is float and item.is_integer())


_Validator: Final = validators.extend(Draft202012Validator, {"items": _items})  # type: ignore[no-untyped-call]


class RequestSchemas:
    """The validators of every request body, made once."""

    def __init__(self, pointers: Mapping[str, str]) -> None:
        """Build from operation ids and the JSON pointers of their schemas in `openapi.json`."""
        text = (resources.files("pantheon.generated") / "openapi.json").read_text("utf-8")
        document = DRAFT202012.create_resource(json.loads(text))
        registry: Registry[Any] = Registry().with_resource(_DOCUMENT_URI, document)
        self._validators = {
            operation: _Validator({"$ref": _DOCUMENT_URI + pointer}, registry=registry)
            for operation, pointer in pointers.items()
        }

    def check(self, operation_id: str, value: object) -> None:
        """Check a body.

        Raises:
            RequestRefused: 400 with the first field that is wrong, what was expected and what came.
        """
        error = next(self._validators[operation_id].iter_errors(value), None)
        if error is not None:
            raise RequestRefused(400, describe(error))


def describe(error: ValidationError) -> str:
    """One line such as `messages[0].role: expected string or null, got integer`."""
    error = _innermost(error)
    text = f"{_path(error.absolute_path)}: {_rule(error)}".removeprefix(": ")
    return text if len(text) <= _MAX_MESSAGE else f"{text[:_MAX_MESSAGE]}..."


def _innermost(error: ValidationError) -> ValidationError:
    """The error of the alternative that was meant: one whose type fits, if there is any."""
    while error.validator in ("anyOf", "oneOf"):
        meant = [inner for inner in error.context or () if not _is_type_error_at_top(inner)]
        if not meant:
            break
        error = meant[0]
    return error


def _is_type_error_at_top(error: ValidationError) -> bool:
    return error.validator == "type" and not error.relative_path


def _rule(error: ValidationError) -> str:
    value: Any = error.validator_value
    instance: Any = error.instance
    match error.validator:
        case "type":
            return f"expected {_types(value)}, got {_type_of(instance)}"
        case "anyOf" | "oneOf":
            types = [name for inner in error.context or () for name in _as_list(inner)]
            return f"expected {_types(types)}, got {_type_of(instance)}"
        case "required":
            missing = next(name for name in value if name not in instance)
            return f"expected the field {missing}, got none"
        case "enum":
            allowed = ", ".join(json.dumps(item, ensure_ascii=False) for item in value)
            return f"expected one of {allowed}, got {_shown(instance)}"
        case "minItems" | "minLength" | "minProperties":
            return f"expected at least {value} {_unit(instance, value)}, got {len(instance)}"
        case "maxItems" | "maxLength" | "maxProperties":
            return f"expected at most {value} {_unit(instance, value)}, got {len(instance)}"
        case "minimum":
            return f"expected a number of at least {value}, got {_shown(instance)}"
        case "maximum":
            return f"expected a number of at most {value}, got {_shown(instance)}"
        case keyword:
            rule = f"a value with {keyword} {_shown(value)}"
            if keyword == "pattern" and isinstance(error.schema, Mapping):
                rule = error.schema.get(_PATTERN_WORDS, rule)
            return f"expected {rule}, got {_shown(instance)}"


def _as_list(error: ValidationError) -> list[str]:
    value: Any = error.validator_value
    return [value] if isinstance(value, str) else list(value)


def _types(value: str | list[str]) -> str:
    return value if isinstance(value, str) else " or ".join(value)


def _type_of(instance: Any) -> str:
    return _JSON_TYPES[type(instance)]


def _unit(instance: object, count: int) -> str:
    match instance:
        case str():
            name = "character"
        case list():
            name = "item"
        case _:
            name = "member"
    return name if count == 1 else f"{name}s"


def _shown(instance: object) -> str:
    text = json.dumps(instance, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:80]}..."


def _path(parts: Iterable[str | int]) -> str:
    path = ""
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path
