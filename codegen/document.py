"""Loading an OpenAPI document, and naming the places in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import yaml
from openapi_spec_validator import OpenAPIV31SpecValidator

JsonObject: TypeAlias = dict[str, Any]


class UnsupportedSpec(Exception):
    """The document holds a construct for which no code can be generated.

    Attributes:
        pointer: JSON pointer (RFC 6901) of the construct.
        reason: the rule, what was expected and what came.
    """

    def __init__(self, pointer: str, reason: str) -> None:
        super().__init__(f"{pointer or '/'}: {reason}")
        self.pointer = pointer
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Node:
    """A value of the document together with its JSON pointer."""

    value: Any
    pointer: str

    def child(self, key: str | int) -> Node:
        """The member `key` of an object, or the item `key` of an array."""
        escaped = str(key).replace("~", "~0").replace("/", "~1")
        return Node(self.value[key], f"{self.pointer}/{escaped}")

    def members(self) -> Mapping[str, Node]:
        """The members of an object, in the order written.

        Raises:
            UnsupportedSpec: the value is no object, or a key is no string.
        """
        if not isinstance(self.value, dict):
            raise UnsupportedSpec(
                self.pointer, f"expected an object, found {type(self.value).__name__}"
            )
        for key in self.value:
            if not isinstance(key, str):
                raise UnsupportedSpec(
                    self.pointer, f"keys must be strings, found {key!r}; put it in quotes"
                )
        return {key: self.child(key) for key in self.value}

    def items(self) -> list[Node]:
        """The items of an array, in order.

        Raises:
            UnsupportedSpec: the value is no array.
        """
        if not isinstance(self.value, list):
            raise UnsupportedSpec(
                self.pointer, f"expected an array, found {type(self.value).__name__}"
            )
        return [self.child(index) for index in range(len(self.value))]

    def switch(self, extension: str) -> bool:
        """An extension of an object that is on or off, and off where it is absent.

        Raises:
            UnsupportedSpec: it is neither.
        """
        value = self.value.get(extension, False)
        if not isinstance(value, bool):
            raise UnsupportedSpec(
                self.child(extension).pointer, f"expected a boolean, found {value!r}"
            )
        return value

    def allow(self, *keys: str, what: str) -> None:
        """Refuse every member of an object but `keys` and `x-` extensions."""
        for key, node in self.members().items():
            if key not in keys and not key.startswith("x-"):
                raise UnsupportedSpec(
                    node.pointer, f"{what} may hold {', '.join(keys)}; found {key!r}"
                )


@dataclass(frozen=True, slots=True)
class Document:
    """A whole OpenAPI document."""

    root: Node

    def resolve(self, node: Node) -> Node:
        """Follow `$ref` until the value is none; other nodes are returned as they are.

        Raises:
            UnsupportedSpec: a reference out of the document, to nothing, or in a circle.
        """
        seen: set[str] = set()
        while isinstance(node.value, dict) and "$ref" in node.value:
            reference = node.value["$ref"]
            if not isinstance(reference, str) or not reference.startswith("#/"):
                raise UnsupportedSpec(
                    f"{node.pointer}/$ref",
                    f"references must stay in the document (#/...); found {reference!r}",
                )
            if reference in seen:
                raise UnsupportedSpec(f"{node.pointer}/$ref", f"{reference} refers to itself")
            seen.add(reference)
            node = self._at(reference, f"{node.pointer}/$ref")
        return node

    def _at(self, reference: str, origin: str) -> Node:
        node = self.root
        for part in reference[2:].split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(node.value, dict) or key not in node.value:
                raise UnsupportedSpec(origin, f"{reference} refers to nothing")
            node = node.child(key)
        return node


class _Loader(yaml.SafeLoader):
    """A safe loader that refuses duplicate keys, of which YAML would keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for index, key in enumerate(keys):
            if key in keys[:index]:
                line = node.value[index][0].start_mark.line + 1
                raise UnsupportedSpec("", f"line {line}: the key {key!r} is given twice")
        return super().construct_mapping(node, deep)


def load(path: Path) -> Document:
    """Read a YAML (or JSON) document.

    Raises:
        UnsupportedSpec: not YAML, or not a document from which code can be generated.
    """
    try:
        value = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except yaml.YAMLError as error:
        raise UnsupportedSpec("", f"not YAML: {error}") from error
    return check(value)


def check(value: Any) -> Document:
    """Take a parsed document if it is a valid OpenAPI 3.1 document without outside references.

    Raises:
        UnsupportedSpec: it is not; the pointer is that of the first thing wrong.
    """
    root = Node(value, "")
    root.allow("openapi", "info", "servers", "tags", "paths", "components", what="a document")
    version = str(value.get("openapi"))
    if not version.startswith("3.1."):
        raise UnsupportedSpec("/openapi", f"expected version 3.1.x, found {version!r}")
    for section in ("paths", "components"):
        if section not in value:
            raise UnsupportedSpec("", f"a document must hold {section!r}")
    document = Document(root)
    # Before the validator, which would fetch what an outside reference names.
    _check_references(document, root)
    for error in OpenAPIV31SpecValidator.schema_validator.iter_errors(value):
        node = root
        for key in error.absolute_path:
            node = node.child(key)
        raise UnsupportedSpec(node.pointer, error.message)
    return document


def _check_references(document: Document, node: Node) -> None:
    if isinstance(node.value, dict):
        document.resolve(node)
        children = list(node.members().values())
    else:
        children = node.items() if isinstance(node.value, list) else []
    for child in children:
        _check_references(document, child)
