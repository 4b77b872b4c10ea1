"""Recognising tags in text that is still growing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from typing import Final

from pantheon.engine.stop_strings import overlap

MAX_GAP: Final = 256
"""Most whitespace characters between two tags."""

GAP: Final = rf"[ \t\r\n]{{0,{MAX_GAP}}}"
"""Expression for whitespace between two tags."""
_GAP: Final = re.compile(GAP)


class Match(Enum):
    """Why a tag was not found."""

    PENDING = "pending"
    """What there is of the text may become one."""
    NONE = "none"


class Tag:
    """A literal beginning, such as `<function=`, and an expression for the rest."""

    def __init__(self, literal: str, rest: str = "", begun_rest: str = "") -> None:
        """Compile.

        Args:
            literal: how the tag begins.
            rest: expression for what follows; its groups catch the name, if the tag has one.
            begun_rest: expression for every beginning of the rest, the empty one included; its
                groups catch the beginning of the name.
        """
        self.literal = literal
        self._full = re.compile(re.escape(literal) + rest)
        self._begun = re.compile(beginnings(literal, begun_rest))

    def match(self, text: str, at: int) -> tuple[str, int] | Match:
        """The name in the tag at a place ("" if it has none) and the tag's end."""
        found = self._full.match(text, at)
        if found is not None:
            return next((group for group in found.groups() if group is not None), ""), found.end()
        return Match.PENDING if self._begun.fullmatch(text, at) else Match.NONE

    def begun_name(self, text: str, at: int) -> str:
        """The beginning of the name in a tag that ends the text before it is complete."""
        found = self._begun.fullmatch(text, at)
        groups = found.groups() if found is not None else ()
        return next((group for group in groups if group is not None), "")

    def begun_text(self, text: str, at: int) -> str | None:
        """What completes a tag without a name that ends the text, or None if that is none."""
        return self.literal[len(text) - at :] if self.literal.startswith(text[at:]) else None


def beginnings(literal: str, rest: str = "") -> str:
    """Expression for every beginning of a literal, and for all of it with `rest` behind."""
    for character in reversed(literal):
        rest = f"(?:{re.escape(character)}{rest})?"
    return rest


def behind_gap(text: str, at: int) -> int:
    """The place behind the whitespace at `at`; more than `MAX_GAP` of it is no gap."""
    return _GAP.match(text, at).end()  # type: ignore[union-attr]  # matches ""


def certain_end(text: str, at: int, literals: Sequence[str]) -> int:
    """Up to where the text from `at` on cannot be the beginning of any of the literals."""
    longest = max(map(len, literals))
    tail = text[max(at, len(text) - longest) :]
    return len(text) - max(overlap(tail, literal) for literal in literals)
