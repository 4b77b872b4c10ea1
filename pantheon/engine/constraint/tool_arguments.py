"""What a tool's arguments may be, as a grammar needs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Final

from pantheon.engine.constraint.allowance import Allowance, NoValue, UnusableSchema
from pantheon.engine.constraint.schema_graph import SchemaGraph
from pantheon.engine.constraint.shape import Schemas, Shape, conjunction
from pantheon.engine.tools import Tool
from pantheon.engine.tools.schema_types import (
    argument_schemas,
    argument_types,
    other_arguments,
    required_arguments,
)

MAX_ARGUMENTS: Final = 256
"""Most arguments of a tool that are told apart."""
_MAX_WAYS: Final = 16
"""Most ways in which a tool can be called: sets of arguments that go together."""
_OBJECT: Final = {"type": "object"}
_NO_ARGUMENT: Final = "\x00"
"""A key that no schema lists."""


class Strictness(IntEnum):
    """How much of a tool's schema its grammar holds to."""

    NAMES = 0
    """The tool's name; any arguments."""
    TYPES = 1
    """And keys, required keys and the types of values."""
    SCHEMA = 2
    """And what the schema says of the values, as far as grammars can."""


@dataclass(frozen=True, slots=True)
class ToolArguments:
    """The arguments of one tool.

    Attributes:
        graph: has all values in them.
        ways: shapes of the object that they are.
    """

    graph: SchemaGraph
    ways: tuple[Shape, ...]


def tool_arguments(
    tool: Tool, strictness: Strictness, allowance: Allowance, writes: Callable[[str], bool]
) -> ToolArguments:
    """The arguments that a grammar lets a tool be called with.

    Args:
        tool: the tool.
        strictness: how much of its schema to hold to; less where that is not possible.
        allowance: of the grammar.
        writes: whether the dialect can write an argument of that name; others are left out.
    """
    if strictness is Strictness.SCHEMA:
        graph = SchemaGraph(tool.parameters, allowance)
        try:
            return ToolArguments(graph, _ways(tool, graph, tool.parameters, allowance, writes))
        except UnusableSchema as error:
            allowance.relaxed[tool.name, ""] = str(error)
    root: Any = _OBJECT if strictness is Strictness.NAMES else _typed(tool.parameters)
    # It says little: nothing of the grammar's parts is spent on it.
    graph = SchemaGraph(root, Allowance())
    try:
        return ToolArguments(graph, _ways(tool, graph, root, allowance, writes))
    except UnusableSchema as error:
        allowance.relaxed[tool.name, ""] = str(error)
    graph = SchemaGraph(_OBJECT, Allowance())
    return ToolArguments(graph, _ways(tool, graph, _OBJECT, allowance, writes))


def _ways(
    tool: Tool,
    graph: SchemaGraph,
    root: Any,
    allowance: Allowance,
    writes: Callable[[str], bool],
) -> tuple[Shape, ...]:
    """The shapes of the object of all arguments, each value in them added to the graph.

    Raises:
        UnusableSchema: they are too many.
        NoValue: no object fits.
    """
    shapes = graph.expand((root, _OBJECT))
    if len(shapes) > _MAX_WAYS:
        raise UnusableSchema("it has more sets of arguments than a grammar is made from")
    count = sum(len(shape.properties) for shape in shapes)
    if any(len(shape.properties) > MAX_ARGUMENTS for shape in shapes) or (
        count > allowance.arguments
    ):
        raise UnusableSchema("it has more arguments than a grammar is made from")
    allowance.arguments -= count
    ways: list[Shape] = []
    reason = "no object fits"
    for shape in shapes:
        way = _Way(tool, graph, allowance, is_only=len(shapes) == 1)
        try:
            ways.append(way.held(shape, writes))
        except NoValue as error:
            reason = str(error)
    if not ways:
        raise NoValue(reason)
    return tuple(ways)


@dataclass(frozen=True, slots=True)
class _Way:
    """One set of arguments in the making.

    Attributes:
        is_only: whether the tool can be called in no other way.
    """

    tool: Tool
    graph: SchemaGraph
    allowance: Allowance
    is_only: bool

    def held(self, shape: Shape, writes: Callable[[str], bool]) -> Shape:
        """A shape of which each value is in the graph; NoValue where one must be and cannot."""
        properties: dict[str, Schemas] = {}
        for key, schemas in shape.properties.items():
            if not writes(key):
                self.allowance.lost.add("properties")
                continue
            value = self._added(key, schemas, is_required=key in shape.required)
            if value is not None:
                properties[key] = value
        others = shape.others
        if others is not None:
            is_listed = other_arguments(self.tool.parameters) is False
            others = None if is_listed else self._added(_NO_ARGUMENT, others, is_required=False)
        required = shape.required & properties.keys()
        return replace(
            shape,
            types=frozenset(("object",)),
            values=None,
            properties=properties,
            required=required,
            others=others,
        )

    def _added(self, key: str, schemas: Schemas, *, is_required: bool) -> Schemas | None:
        """What the value of an argument is held to; None where it is not to be written."""
        try:
            self.graph.add(schemas)
            return schemas
        except UnusableSchema as error:
            if isinstance(error, NoValue) and not (is_required and self.is_only):
                if is_required:
                    raise
                return None
            self.allowance.relaxed[self.tool.name, key.strip(_NO_ARGUMENT)] = str(error)
        relaxed = conjunction([_type_of(self.tool.parameters, key)])
        self.graph.add(relaxed, is_free=True)
        return relaxed


def _typed(parameters: Mapping[str, Any] | bool) -> dict[str, Any]:
    """A schema that says of arguments no more than their names and types."""
    required = sorted(required_arguments(parameters))
    keys = dict.fromkeys([*argument_schemas(parameters), *required])
    further = other_arguments(parameters)
    return {
        "type": "object",
        "properties": {key: _type_of(parameters, key) for key in keys},
        "required": required,
        "additionalProperties": further is not False and _type_of(parameters, _NO_ARGUMENT),
    }


def _type_of(parameters: Mapping[str, Any] | bool, key: str) -> dict[str, Any]:
    allowed = argument_types(parameters, key)
    return {"type": sorted(allowed.types)} if allowed.declared else {}
