"""What a tool's arguments may be, as a grammar needs it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from pantheon.engine.constraint.value_schema import Allowance, UnusableSchema, is_text, reduced
from pantheon.engine.tools import Tool
from pantheon.engine.tools.schema_types import (
    ANYTHING,
    AllowedTypes,
    argument_schemas,
    argument_types,
    other_arguments,
    required_arguments,
)

MAX_ARGUMENTS: Final = 256
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
class Argument:
    """One argument.

    Attributes:
        key: its name.
        required: whether a call must have it.
        allowed: types of its value.
        schema: JSON Schema of its value, in keywords that the compiler takes.
    """

    key: str
    required: bool
    allowed: AllowedTypes
    schema: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToolArguments:
    """The arguments of one tool.

    Attributes:
        listed: those that the schema names, in its order.
        others: value of any further argument; None where there may be none.
    """

    listed: tuple[Argument, ...]
    others: Argument | None


ANY_VALUE: Final = Argument("", False, ANYTHING, {})

_log = logging.getLogger(__name__)


def tool_arguments(
    tool: Tool, strictness: Strictness, allowance: Allowance, writes: Callable[[str], bool]
) -> ToolArguments:
    """The arguments that a grammar lets a tool be called with.

    Args:
        tool: the tool.
        strictness: how much of its schema to hold to.
        allowance: of the grammar.
        writes: whether the dialect can write an argument of that name; others are left out.
    """
    parameters = tool.parameters
    if strictness is Strictness.NAMES:
        return ToolArguments((), ANY_VALUE)
    required = required_arguments(parameters)
    given = argument_schemas(parameters)
    keys = list(dict.fromkeys([*given, *sorted(required)]))
    if len(keys) > min(MAX_ARGUMENTS, allowance.arguments):
        allowance.lost.add("properties")
        return ToolArguments((), ANY_VALUE)
    allowance.arguments -= len(keys)

    def argument(key: str, schema: Any, prefix: str) -> Argument:
        allowed = argument_types(parameters, key)
        kept: dict[str, Any] | bool = True
        if strictness is Strictness.SCHEMA:
            try:
                kept = reduced(schema, parameters, allowance, prefix)
            except UnusableSchema as error:
                _log.warning("an argument of the tool %r is held to its type: %s", tool.name, error)
        if isinstance(kept, bool):
            kept = {"type": sorted(allowed.types)} if allowed.declared else {}
        return Argument(key, key in required, allowed, kept)

    listed: list[Argument] = []
    for key in keys:
        if not is_text(key) or not writes(key):
            allowance.lost.add("properties")
            continue
        schemas = given.get(key, [True])
        if schemas == [False] and key not in required:
            continue
        schema = schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)}
        listed.append(argument(key, schema, f"a{len(listed)}"))
    further = other_arguments(parameters)
    others = None if further is False else argument(_NO_ARGUMENT, further, "o")
    return ToolArguments(tuple(listed), others)
