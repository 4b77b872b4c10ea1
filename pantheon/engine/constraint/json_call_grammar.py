"""Calls in the JSON dialect: an object, bare or in the fence that `turn_text` writes around it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from pantheon.engine.constraint.lark import LarkGrammar, escaped, literal
from pantheon.engine.constraint.tool_arguments import Argument, ToolArguments

_GAP: Final = r"( |\n {0,8})?"
"""What may stand between two tokens: see `JSON_OPTIONS`."""
_COLON: Final = f"{_GAP}:{_GAP}"


def json_call(grammar: LarkGrammar, tools: Mapping[str, ToolArguments], *, begun: bool) -> str:
    """Add the rules of a call of one of several tools.

    Args:
        tools: by name.
        begun: only the object: a fence before it stands in front of what the grammar is for.

    Returns:
        What the grammar starts with.
    """
    opener = grammar.terminal(f'{escaped("{")}{_GAP}"(function|name)"{_COLON}')
    key = grammar.terminal(f'{_GAP},{_GAP}"arguments"{_COLON}')
    calls = [
        f"{literal(json.dumps(name, ensure_ascii=False))} {key} "
        f"{grammar.json_value(_schema(arguments))}"
        for name, arguments in tools.items()
    ]
    end = grammar.terminal(_GAP + escaped("}"))
    grammar.add(f"call: {opener} ({' | '.join(calls)}) {end}")
    return "call" if begun else r'"```json\n" call "\n```" | call'


def json_opener(name: str) -> str:
    """How a call begins, up to its arguments."""
    return f'{{"function": {json.dumps(name, ensure_ascii=False)}, "arguments": '


def _schema(arguments: ToolArguments) -> dict[str, Any]:
    """One schema of all arguments."""
    definitions: dict[str, Any] = {}

    def part(argument: Argument) -> dict[str, Any]:
        definitions.update(argument.schema.get("$defs", {}))
        return {key: value for key, value in argument.schema.items() if key != "$defs"}

    schema = {
        "type": "object",
        "properties": {argument.key: part(argument) for argument in arguments.listed},
        "required": [argument.key for argument in arguments.listed if argument.required],
        "additionalProperties": arguments.others is not None and part(arguments.others),
    }
    return {**schema, "$defs": definitions} if definitions else schema
