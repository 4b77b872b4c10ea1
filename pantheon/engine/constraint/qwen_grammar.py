"""Calls in the Qwen3-Coder dialect, as `turn_text` of that dialect writes them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from pantheon.engine.constraint.json_rules import JsonRules
from pantheon.engine.constraint.json_text import JsonText
from pantheon.engine.constraint.lark import LarkGrammar, either, escaped, literal, text_up_to
from pantheon.engine.constraint.schema_graph import SchemaGraph
from pantheon.engine.constraint.shape import MAX_LIST, Schemas, Shape
from pantheon.engine.constraint.tool_arguments import ToolArguments

_OPEN: Final = "<tool_call>\n"
_CLOSE: Final = "\n</tool_call>"
_VALUE_END: Final = "</parameter>"
_BITS: Final = 64
"""Arguments of which a rule can tell whether they came."""
_MAX_LISTED_CHARS: Final = 4096

_KEY: Final = re.compile(r"[^<>\n]{1,256}")
_ANY_KEY: Final = r"<parameter=[^<>\n\x00]{1,64}>\n"
_SPELLED: Final = ((True, "True"), (False, "False"), (None, "None"))
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
    rules = JsonRules(grammar, JsonText(_VALUE_END))
    functions = [
        f"{literal(f'<function={name}>' + chr(10))} {_arguments(grammar, rules, arguments)}"
        for name, arguments in tools.items()
    ]
    rules.write()
    grammar.add(f"call: {' | '.join(functions)}")
    wrapped = f"{literal(_OPEN)} call {literal(_CLOSE)}"
    return f"{wrapped} | call" if begun else wrapped


def qwen_writes(key: str) -> bool:
    """Whether the dialect can write an argument of that name."""
    return _KEY.fullmatch(key) is not None


def qwen_opener(name: str, *, wrapped: bool) -> str:
    """How a call begins, up to its first argument."""
    return f"{_OPEN if wrapped else ''}<function={name}>"


def _arguments(grammar: LarkGrammar, rules: JsonRules, arguments: ToolArguments) -> str:
    """The rules for the arguments of a tool and the end of its call, begun with none of them."""
    return either([_way(grammar, rules, arguments.graph, way) for way in arguments.ways])


def _way(grammar: LarkGrammar, rules: JsonRules, graph: SchemaGraph, way: Shape) -> str:
    """The rule for arguments that go together.

    A rule can tell of 64 arguments whether they came: further ones come behind those.
    """
    end = literal("</function>")
    others = []
    if way.others is not None:
        others = [f"{_other_key(grammar, way)} {_value(grammar, rules, graph, way.others)}"]
    keys = list(way.properties)
    for start in reversed(range(0, max(len(keys), 1), _BITS)):
        # The bits of required arguments come first, so that one condition tells whether all are
        # set.
        listed = sorted(keys[start : start + _BITS], key=lambda key: key not in way.required)
        required = sum(key in way.required for key in listed)
        condition = f" %if is_ones([0:{required}])" if required else ""
        rule = grammar.name("arguments")
        # A rule that does not use its parameter may not have one.
        again, begin = (f"{rule}::_", f"{rule}::0x0") if listed else (rule, rule)
        lines = [f"{end}{condition}"]
        for bit, key in enumerate(listed):
            value = _value(grammar, rules, graph, way.properties[key])
            opener = literal(f"<parameter={key}>\n")
            lines.append(f"{opener} {value} {rule}::set_bit({bit}) %if bit_clear({bit})")
        lines += [f"{other} {again}" for other in others]
        grammar.add(f"{again}: " + "\n  | ".join(lines))
        end = begin
    return end


def _other_key(grammar: LarkGrammar, way: Shape) -> str:
    """The terminal for the opener of an argument that is not listed."""
    if not way.properties:
        return grammar.terminal(_ANY_KEY)
    taken = "|".join(map(escaped, way.properties))
    listed = grammar.terminal(rf"<parameter=(?:{taken})>\n")
    return grammar.difference(grammar.terminal(_ANY_KEY), listed)


def _value(grammar: LarkGrammar, rules: JsonRules, graph: SchemaGraph, schemas: Schemas) -> str:
    """The rule for a value, its closing tag and the line break behind that."""
    closing = literal(f"\n{_VALUE_END}\n")
    free = f'{grammar.terminal(text_up_to(_VALUE_END))} "\\n"'
    key = graph.key(schemas)
    shapes = graph.shapes(key)
    if any("string" in shape.types and shape.values is None for shape in shapes):
        return free
    listed = {
        value: None
        for shape in shapes
        for value in shape.values or ()
        if isinstance(value, str) and _VALUE_END not in value and len(value) <= _MAX_LISTED_CHARS
    }
    others = [other for shape in shapes if (other := _without_strings(shape)) is not None]
    expansions = []
    if 0 < len(listed) <= MAX_LIST:
        # One terminal: the parser's work grows with the number of expansions.
        texts = f"(?:{'|'.join(map(escaped, listed))})"
        expansions.append(grammar.terminal(texts + escaped(f"\n{_VALUE_END}\n")))
    if others:
        is_whole = others == list(shapes)
        symbol = rules.value(graph, key) if is_whole else rules.one_of(graph, others)
        words = [literal(word) for word in _words(others)]
        typed = grammar.shared("typed", either([symbol.outermost, *words]))
        expansions.append(f"{typed} {closing}")
    return either(expansions) if expansions else free


def _without_strings(shape: Shape) -> Shape | None:
    if shape.values is None:
        return shape
    values = tuple(value for value in shape.values if not isinstance(value, str))
    if not values:
        return None
    return shape if values == shape.values else replace(shape, values=values)


def _words(shapes: Sequence[Shape]) -> list[str]:
    """Python's words for what the values may be."""
    found = []
    for value, word in _SPELLED:
        kind = "null" if value is None else "boolean"
        for shape in shapes:
            named = kind in shape.types if shape.values is None else None
            if named or any(listed is value for listed in shape.values or ()):
                found.append(word)
                break
    return found
