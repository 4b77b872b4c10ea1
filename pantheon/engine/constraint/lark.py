"""Writing grammars in the language of the compiler, a variant of Lark."""

from __future__ import annotations

import json
from collections.abc import Sequence


class LarkGrammar:
    """Rules in the making."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._shared: dict[str, str] = {}
        self._names = 0

    @property
    def source(self) -> str:
        """All rules so far."""
        return "\n".join(self._lines) + "\n"

    def add(self, rule: str) -> None:
        """Add a rule, `name: expansion`."""
        self._lines.append(rule)

    def name(self, prefix: str) -> str:
        """A new name of a rule."""
        self._names += 1
        return f"{prefix}{self._names}"

    def shared(self, prefix: str, expansion: str, *, parameter: str = "") -> str:
        """The name of a rule with an expansion, which is added only once."""
        name = self._shared.get(expansion)
        if name is None:
            name = self._shared[expansion] = self.name(prefix)
            self.add(f"{name}{parameter}: {expansion}")
        return name

    def multiple(self, divisor: int, low: int, high: int) -> str:
        """The name of a rule for the integers from `low` to `high` that are multiples."""
        schema = {"type": "integer", "minimum": low, "maximum": high, "multipleOf": divisor}
        return self.shared("multiple", f"%json {json.dumps(schema)}")

    def terminal(self, text: str) -> str:
        """The name of a terminal for a regular expression."""
        return self.shared("T", expression(text))

    def sequence(self, *terms: str) -> str:
        """The name of a terminal for terminals and expressions behind each other."""
        return self.shared("T", " ".join(terms))

    def difference(self, terminal: str, other: str) -> str:
        """The name of a terminal for what one terminal matches and another does not."""
        return self.shared("T", f"{terminal} & ~{other}")

    def choice(self, terms: Sequence[str]) -> str:
        """The name of a terminal for one of several terms of terminals and expressions."""
        return self.shared("T", " | ".join(f"({term})" for term in terms))


def expression(text: str) -> str:
    """A regular expression as grammars write it."""
    return f"/{text}/"


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
