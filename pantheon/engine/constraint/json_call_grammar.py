"""Calls in the JSON dialect: an object, bare or in the fence that `turn_text` writes around it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from pantheon.engine.constraint.json_rules import JsonRules
from pantheon.engine.constraint.json_text import GAP, JsonText
from pantheon.engine.constraint.lark import LarkGrammar, escaped, literal
from pantheon.engine.constraint.tool_arguments import ToolArguments

_COLON: Final = f"{GAP}:{GAP}"


def json_call(grammar: LarkGrammar, tools: Mapping[str, ToolArguments], *, begun: bool) -> str:
    """Add the rules of a call of one of several tools.

    Args:
        tools: by name.
        begun: only the object: a fence before it stands in front of what the grammar is for.

    Returns:
        What the grammar starts with.
    """
    opener = grammar.terminal(f'{escaped("{")}{GAP}"(function|name)"{_COLON}')
    key = grammar.terminal(f'{GAP},{GAP}"arguments"{_COLON}')
    rules = JsonRules(grammar, JsonText())
    calls = [
        f"{literal(json.dumps(name, ensure_ascii=False))} {key} "
        f"{rules.one_of(arguments.graph, arguments.ways).outermost}"
        for name, arguments in tools.items()
    ]
    rules.write()
    end = grammar.terminal(GAP + escaped("}"))
    grammar.add(f"call: {opener} ({' | '.join(calls)}) {end}")
    # A closing text ends with the object.
    return "call" if begun else r'"```json\n" call "\n```"? | call'


def json_opener(name: str) -> str:
    """How a call begins, up to its arguments."""
    return f'{{"function": {json.dumps(name, ensure_ascii=False)}, "arguments": '
