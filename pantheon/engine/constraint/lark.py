"""Writing grammars in the language of the compiler, a variant of Lark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pantheon.engine.constraint.compiler import JSON_OPTIONS


class LarkGrammar:
    """Rules in the making."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._shared: dict[str, str] = {}

    @property
    def source(self) -> str:
        """All rules so far."""
        return "\n".join(self._lines) + "\n"

    def add(self, rule: str) -> None:
        """Add a rule, `name: expansion`."""
        self._lines.append(rule)

    def shared(self, prefix: str, expansion: str) -> str:
        """The name of a rule with an expansion, which is added only once."""
        name = self._shared.get(expansion)
        if name is None:
            name = self._shared[expansion] = f"{prefix}{len(self._shared)}"
            self.add(f"{name}: {expansion}")
        return name

    def json_value(self, schema: dict[str, Any]) -> str:
        """The name of a rule for JSON text of a value that fits a schema."""
        return self.shared("json", f"%json {json.dumps({'x-guidance': JSON_OPTIONS, **schema})}")

    def terminal(self, expression: str) -> str:
        """The name of a terminal for a regular expression."""
        return self.shared("T", f"/{expression}/")


def literal(text: str) -> str:
    """A terminal that is a text."""
    return json.dumps(text, ensure_ascii=False)


def either(expansions: Sequence[str]) -> str:
    """One of several expansions."""
    return expansions[0] if len(expansions) == 1 else f"({' | '.join(expansions)})"


def escaped(text: str) -> str:
    """A regular expression for a text."""
    return "".join(
        character if character.isalnum() or character in "<>_" else rf"\x{{{ord(character):x}}}"
        for character in text
    )


def text_up_to(close: str) -> str:
    """A regular expression for any text that ends with the first `close` in it.

    Written out instead of as a lazy one: the compiler then knows that most tokens are allowed
    wherever the text stands, and need not try each of them.

    Args:
        close: begins with `<`, which is not in the rest of it.
    """
    first, rest = close[0], close[1:]
    begun = ""
    for character in reversed(rest[:-1]):
        begun = f"(?:{escaped(character)}{begun})?"
    other = f"[^{first}{escaped(rest[-1])}]"
    for character in reversed(rest[:-1]):
        other = f"(?:[^{first}{escaped(character)}]|{escaped(character)}{other})"
    opened = f"{first}(?:{begun}{first})*"
    return f"(?:[^{first}]|{opened}{other})*{opened}{escaped(rest)}"
