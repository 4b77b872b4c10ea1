"""The shapes of values that a schema describes, and of the values in them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pantheon.engine.constraint.allowance import (
    MAX_ARGUMENT_PARTS,
    Allowance,
    NoValue,
    UnusableSchema,
)
from pantheon.engine.constraint.shape import Schemas, Shape, as_list, shape_of
from pantheon.engine.tools.schema_types import subschema

MAX_NESTING: Final = 64
"""Deepest value: lists and objects in each other."""
_MAX_BRANCHES: Final = 128
"""Most shapes of one value."""
_MAX_UNIONS: Final = 32
"""Most unions that one value's schema goes through."""
_MAX_REFERENCES: Final = 64
_UNIONS: Final = ("anyOf", "oneOf")
_ANNOTATIONS: Final = frozenset(("$ref", "title", "description", "default", "examples"))

Key = tuple[int, ...]
"""Of a value in the graph."""


class SchemaGraph:
    """All values that the arguments of one tool may hold, each with its shapes.

    References and combinations are gone from it; recursion is a circle in it. A value's `need` is
    how deep it nests at least, infinite for one that never ends or that nothing fits.
    """

    def __init__(self, root: Any, allowance: Allowance) -> None:
        """Nothing is in it yet.

        Args:
            root: the document that references point into. It and whatever is added must outlive
                the graph, which knows schemas by their identity.
            allowance: of the grammar that it is for.
        """
        self._root = root
        self._allowance = allowance
        self._shapes: dict[Key, tuple[Shape, ...]] = {}
        self._needs: dict[Key, float] = {}
        self._left, self._is_free = MAX_ARGUMENT_PARTS, False

    def add(self, schemas: Schemas, *, is_free: bool = False) -> Key:
        """Take in a value and all that may stand in it.

        Args:
            schemas: of the value.
            is_free: count no parts: the schemas say little.

        Raises:
            UnusableSchema: it has too many parts.
            NoValue: no value fits.
        """
        start, added = self.key(schemas), dict[Key, None]()
        self._left, self._is_free = MAX_ARGUMENT_PARTS, is_free
        try:
            parents = self._explore(schemas, added)
            self._settle(added, parents)
            if self.need(start) > MAX_NESTING:
                raise NoValue("no value fits it")
        except UnusableSchema:
            for key in added:
                self._shapes.pop(key, None)
                self._needs.pop(key, None)
            raise
        return start

    def key(self, schemas: Schemas) -> Key:
        """The value that fits the given schemas."""
        parts = (self._resolved(schema) for schema in schemas)
        return tuple(dict.fromkeys(id(part) for part in parts if part is not True))

    def shapes(self, key: Key) -> tuple[Shape, ...]:
        """What a value that was added may be."""
        return self._shapes[key]

    def need(self, key: Key) -> float:
        """How deep a value that was added nests at least."""
        return self._needs.get(key, math.inf)

    def object_need(self, shape: Shape) -> float:
        """How deep an object of a shape nests at least."""
        return 1 + self._most(shape.properties[key] for key in shape.required)

    def array_need(self, shape: Shape) -> float:
        """How deep an array of a shape nests at least."""
        if shape.most is not None and shape.least > shape.most:
            return math.inf
        inside = list(shape.first[: shape.least])
        if shape.least > len(inside):
            inside.append((False,) if shape.items is None else shape.items)
        return 1 + self._most(inside)

    def expand(self, schemas: Schemas) -> tuple[Shape, ...]:
        """The shapes of a value, without what may stand in it.

        Raises:
            UnusableSchema: it has too many parts.
        """
        shapes: list[Shape] = []
        for branch in self._branches({}, list(reversed(schemas)), []):
            if len(shapes) == _MAX_BRANCHES:
                raise UnusableSchema("it has more alternatives than a grammar is made from")
            shape = shape_of(list(branch.values()), self._allowance.lost)
            if shape is not None:
                shapes.append(shape)
        return tuple(shapes)

    def _explore(self, schemas: Schemas, added: dict[Key, None]) -> dict[Key, list[Key]]:
        """Find the shapes of what is new; returns where each value stands."""
        parents: dict[Key, list[Key]] = {}
        pending = [(self.key(schemas), schemas)]
        while pending:
            key, schemas = pending.pop()
            if key in self._shapes:
                continue
            added[key] = None
            self._shapes[key] = self.expand(schemas)
            for shape in self._shapes[key]:
                for child in _children(shape):
                    parents.setdefault(self.key(child), []).append(key)
                    pending.append((self.key(child), child))
        return parents

    def _settle(self, added: dict[Key, None], parents: Mapping[Key, list[Key]]) -> None:
        """Find what each new value needs: less and less until nothing changes."""
        # Last come those that others were found in: each waits until those in it are settled.
        pending = dict.fromkeys(added)
        while pending:
            key, _ = pending.popitem()
            need = min(map(self._need_of, self._shapes[key]), default=math.inf)
            if need < self.need(key):
                self._needs[key] = need
                pending.update(dict.fromkeys(parents.get(key, ())))

    def _need_of(self, shape: Shape) -> float:
        if shape.values is not None or shape.types - {"object", "array"}:
            return 0
        objects = self.object_need(shape) if "object" in shape.types else math.inf
        return min(objects, self.array_need(shape) if "array" in shape.types else math.inf)

    def _most(self, values: Iterable[Schemas]) -> float:
        return max((self.need(self.key(schemas)) for schemas in values), default=0)

    def _branches(
        self, flat: dict[int, Mapping[str, Any]], pending: list[Any], unions: list[Sequence[Any]]
    ) -> Iterator[dict[int, Mapping[str, Any]]]:
        """The schemas that a value must fit all, once for each way through the unions.

        Args:
            flat: those known, by identity.
            pending: further ones, the next at the end.
            unions: those that are not gone through.
        """
        while pending:
            schema = self._resolved(pending.pop())
            if schema is False:
                return
            if not isinstance(schema, Mapping) or id(schema) in flat:
                continue
            self._spend()
            flat[id(schema)] = schema
            if "$ref" in schema:
                pending.append(self._referred(schema["$ref"]))
            pending.extend(reversed(as_list(schema.get("allOf"))))
            for keyword in _UNIONS:
                parts = as_list(schema.get(keyword))
                if parts:
                    if len(unions) == _MAX_UNIONS:
                        raise UnusableSchema("it has more unions than a grammar is made from")
                    unions = [*unions, parts]
                if keyword in schema and (keyword == "oneOf" or not parts):
                    # That no two of its parts fit is not enforced.
                    self._allowance.lost.add(keyword)
        if not unions:
            yield flat
            return
        for part in unions[0]:
            yield from self._branches(dict(flat), [part], unions[1:])

    def _spend(self) -> None:
        if self._is_free:
            return
        self._left -= 1
        if self._left < 0:
            raise UnusableSchema("it has more parts than a grammar is made from")
        self._allowance.spend()

    def _resolved(self, schema: Any) -> Any:
        """What a schema refers to if it does nothing else."""
        for _ in range(_MAX_REFERENCES):
            if not isinstance(schema, Mapping) or "$ref" not in schema:
                break
            if not schema.keys() <= _ANNOTATIONS:
                break
            schema = self._referred(schema["$ref"])
        return schema

    def _referred(self, reference: Any) -> Any:
        """What stands where a reference points; anything fits a reference elsewhere."""
        found = subschema(self._root, reference) if isinstance(reference, str) else None
        if found is None:
            self._allowance.lost.add("$ref")
        return True if found is None else found


def _children(shape: Shape) -> Iterator[Schemas]:
    """What may stand in a value of a shape."""
    if shape.values is not None:
        return
    if "object" in shape.types:
        yield from shape.properties.values()
        if shape.others is not None:
            yield shape.others
    if "array" in shape.types:
        yield from shape.first
        if shape.items is not None:
            yield shape.items
