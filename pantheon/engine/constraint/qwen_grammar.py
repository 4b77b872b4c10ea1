"""Calls in the Qwen3-Coder dialect, as `turn_text` of that dialect writes them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pantheon.engine.constraint.lark import LarkGrammar, either, escaped, literal, text_up_to
from pantheon.engine.constraint.tool_arguments import Argument, ToolArguments
from pantheon.engine.constraint.value_schema import MAX_INTEGER, MAX_LIST, is_text

_OPEN: Final = "<tool_call>\n"
_CLOSE: Final = "\n</tool_call>"
_VALUE_END: Final = "</parameter>"
_BITS: Final = 64
"""Arguments of which a rule can tell whether they came."""
_MAX_LISTED_CHARS: Final = 4096

_KEY: Final = re.compile(r"[^<>\n]{1,256}")
_ANY_KEY: Final = r"<parameter=[^<>\n\x00]{1,64}>\n"
_INTEGER: Final = r"-?(0|[1-9][0-9]{0,18})"
_NUMBER: Final = r"-?(0|[1-9][0-9]{0,19})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?"
"""Digits are bounded: a model could write them forever, and readers refuse what no double holds."""
_WORDS: Final = {
    "boolean": ("true", "false", "True", "False"),
    "null": ("null", "None"),
}
_SPELLED: Final = {"true": "True", "false": "False", "null": "None"}
"""Words as the templates write them."""


def qwen_call(grammar: LarkGrammar, tools: Mapping[str, ToolArguments], *, begun: bool) -> str:
    """Add the rules of a call of one of several tools.

    A value that is a string is free up to the first closing tag; a line break before that tag is
    the model's to write. Everything else stands on lines of its own. Arguments come in any order.

    Args:
        tools: by name.
        begun: let the tags around a call be missing, as where a model forgot them.

    Returns:
        What the grammar starts with.
    """
    functions = [
        f"{literal(f'<function={name}>' + chr(10))} {_arguments(grammar, index, arguments)}"
        for index, (name, arguments) in enumerate(tools.items())
    ]
    grammar.add(f"call: {' | '.join(functions)}")
    wrapped = f"{literal(_OPEN)} call {literal(_CLOSE)}"
    return f"{wrapped} | call" if begun else wrapped


def qwen_writes(key: str) -> bool:
    """Whether the dialect can write an argument of that name."""
    return _KEY.fullmatch(key) is not None


def qwen_opener(name: str, *, wrapped: bool) -> str:
    """How a call begins, up to its first argument."""
    return f"{_OPEN if wrapped else ''}<function={name}>"


def _arguments(grammar: LarkGrammar, index: int, arguments: ToolArguments) -> str:
    """The rule for the arguments of a tool and the end of its call, begun with none of them."""
    # The bits of required arguments come first, so that one condition tells whether all are set.
    listed = sorted(arguments.listed, key=lambda argument: not argument.required)
    required = min(_BITS, sum(argument.required for argument in listed))
    rule = f"arguments{index}"
    # A rule that does not use its parameter may not have one.
    again, begin = (f"{rule}::_", f"{rule}::0x0") if listed else (rule, rule)
    condition = f" %if is_ones([0:{required}])" if required else ""
    lines = [f'"</function>"{condition}']
    for bit, argument in enumerate(listed):
        opener = literal(f"<parameter={argument.key}>\n")
        value = _value(grammar, argument)
        if bit < _BITS:
            lines.append(f"{opener} {value} {rule}::set_bit({bit}) %if bit_clear({bit})")
        else:
            lines.append(f"{opener} {value} {again}")
    if arguments.others is not None:
        value = _value(grammar, arguments.others)
        lines.append(f"{grammar.terminal(_ANY_KEY)} {value} {again}")
    grammar.add(f"{again}: " + "\n  | ".join(lines))
    return begin


def _value(grammar: LarkGrammar, argument: Argument) -> str:
    """The rule for a value, its closing tag and the line break behind that."""
    types, strings = argument.allowed.types, argument.allowed.strings
    closing = literal(f"\n{_VALUE_END}\n")
    free = f'{grammar.terminal(text_up_to(_VALUE_END))} "\\n"'
    if "string" not in types:
        return f"{_typed(grammar, argument.schema, types)} {closing}"
    if strings is None:
        return free
    listed = [
        escaped(text)
        for text in sorted(strings)
        if is_text(text) and _VALUE_END not in text and len(text) <= _MAX_LISTED_CHARS
    ]
    expansions = []
    if 0 < len(listed) <= MAX_LIST:
        # One terminal: the parser's work grows with the number of expansions.
        texts = f"(?:{'|'.join(listed)})"
        expansions.append(grammar.terminal(texts + escaped(f"\n{_VALUE_END}\n")))
    elif listed:
        return free
    if others := types - {"string"}:
        typed = _typed(grammar, _without_strings(argument.schema, others), others)
        expansions.append(f"{typed} {closing}")
    return either(expansions) if expansions else free


def _typed(grammar: LarkGrammar, schema: dict[str, Any], types: frozenset[str]) -> str:
    """The rule for the text of a value that is no string."""
    if types <= _WORDS.keys() | {"number", "integer"} and not _restricts(schema):
        words = [literal(word) for name in sorted(types & _WORDS.keys()) for word in _WORDS[name]]
        if "number" in types:
            words.append(grammar.terminal(_NUMBER))
        elif "integer" in types:
            words.append(grammar.terminal(_INTEGER))
        return grammar.shared("typed", either(words))
    if "enum" in schema:
        values = [json.dumps(value) for value in schema["enum"]]
    else:
        values = [word for name in sorted(types & _WORDS.keys()) for word in _WORDS[name]]
    words = [_SPELLED[value] for value in values if value in _SPELLED]
    return grammar.shared("typed", either([grammar.json_value(schema), *map(literal, words)]))


def _restricts(schema: Mapping[str, Any]) -> bool:
    """Whether a schema says more than types."""
    if "minimum" in schema and "type" in schema:
        whole = {"minimum": -MAX_INTEGER, "maximum": MAX_INTEGER}
        schema = {key: value for key, value in schema.items() if value != whole.get(key)}
    return not schema.keys() <= {"type"}


def _without_strings(schema: Mapping[str, Any], types: frozenset[str]) -> dict[str, Any]:
    if isinstance(values := schema.get("enum"), Sequence):
        return {"enum": [value for value in values if not isinstance(value, str)]}
    return {"type": sorted(types)}
