"""Argument values that a dialect writes as plain text, as JSON of the type the schema allows."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Final

from pantheon.engine.tools.json_reader import json_value
from pantheon.engine.tools.prose import WHITESPACE
from pantheon.engine.tools.schema_types import AllowedTypes

_BEGINNING: Final = 8
"""Characters at the start of a value that tell whether it may be anything but a string."""
_CONTAINERS: Final = {"{": "object", "[": "array"}


@dataclass(frozen=True, slots=True)
class ValueTyping:
    """How the text of one argument becomes JSON.

    Where strings are allowed the text is a string, byte for byte, except for objects and arrays
    in strict JSON and a `null` that the schema names. Elsewhere it is what it reads as, in JSON or
    Python's spelling, if the schema allows that, and a string of the text if not.
    """

    allowed: AllowedTypes

    def is_string(self, beginning: str) -> bool:
        """Whether a value that begins so is a string however it goes on."""
        types = self.allowed.types
        if "string" not in types or self.allowed.strings is not None:
            return False
        if types == {"string"}:
            return True
        if not beginning:
            return False
        if beginning[0] == "{" or beginning[0] == "[":
            return ("object" if beginning[0] == "{" else "array") not in types
        return not (self._names_null and "null".startswith(beginning))

    def encode(self, text: str) -> str:
        """JSON text of the complete value."""
        typed = self._typed(text)
        return json.dumps(text, ensure_ascii=False) if typed is None else typed

    def streams(self, mark: str) -> bool:
        """Whether JSON that begins with `mark` needs no other type, however it goes on."""
        types = self.allowed.types
        if mark in "\"'":
            return "string" in types and self.allowed.strings is None
        return mark in _CONTAINERS and (_CONTAINERS[mark] in types or "string" not in types)

    def retyped(self, written: str) -> str:
        """JSON text of a value that came as JSON, in another type if the schema needs that.

        A string of another type's text becomes that, and any other value but null its text. What
        the schema allows in no type stays as it is.
        """
        if written[0] == '"':
            text = json.loads(written)
            return written if self._is_listed(text) else self._typed(text) or written
        if written[0] in _CONTAINERS:
            is_allowed = _CONTAINERS[written[0]] in self.allowed.types
        elif (word := _word(written, self.allowed.types)) is not None:
            return word
        else:
            is_allowed = written == "null"
        if is_allowed or not self._is_listed(written):
            return written
        return json.dumps(written, ensure_ascii=False)

    def accepts(self, text: str) -> bool:
        """Whether the schema allows the value, as far as its types and listed strings go."""
        stripped = text.strip(WHITESPACE)
        # What is not closed is not worth reading: this is asked after each token.
        if stripped[:1] in ("{", "[") and "string" not in self.allowed.types:
            closed = stripped.endswith("}" if stripped[0] == "{" else "]")
            return closed and self._typed(text) is not None
        return self._is_listed(text) or self._typed(text) is not None

    @property
    def _names_null(self) -> bool:
        return self.allowed.declared and "null" in self.allowed.types

    def _is_listed(self, text: str) -> bool:
        strings = self.allowed.strings
        return "string" in self.allowed.types and (strings is None or text in strings)

    def _typed(self, text: str) -> str | None:
        """JSON text of the value if it is no string."""
        types, stripped = self.allowed.types, text.strip(WHITESPACE)
        if "string" not in types:
            return self._container(stripped) or _word(stripped, types)
        if self._is_listed(text):
            container = self._container(stripped)
            if container is not None:
                return container if container == stripped else None
            return "null" if self._names_null and text.lstrip(WHITESPACE) == "null" else None
        return self._container(stripped) or _word(stripped, types)

    def _container(self, text: str) -> str | None:
        kind = _CONTAINERS.get(text[:1])
        return json_value(text) if kind in self.allowed.types else None


class ValueWriter:
    """Writes one argument, key and value, as its text comes.

    A string is passed on at once; anything else waits until it is complete, so that nothing that
    was written is ever taken back.
    """

    def __init__(self, lead: str, typing: ValueTyping) -> None:
        """Start.

        Args:
            lead: JSON text that stands before the value.
            typing: the value's.
        """
        self._lead = lead
        self._typing = typing
        self._is_streaming = False
        self._held: list[str] = []
        self._beginning = ""

    def add(self, text: str) -> str:
        """Take more of the value; returns JSON text that is certain."""
        if self._is_streaming:
            return _escaped(text)
        self._held.append(text)
        if len(self._beginning) < _BEGINNING:
            self._beginning = (self._beginning + text).lstrip(WHITESPACE)[:_BEGINNING]
        if not self._typing.is_string(self._beginning):
            return ""
        self._is_streaming = True
        return f'{self._lead}"{_escaped("".join(self._held))}'

    def close(self) -> str:
        """The value is complete."""
        if self._is_streaming:
            return '"'
        return self._lead + self._typing.encode("".join(self._held))

    def could_close(self, more: str = "") -> bool:
        """Whether the schema allows the value as it is, with `more` at its end."""
        return self._is_streaming or self._typing.accepts("".join(self._held) + more)


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _word(text: str, types: frozenset[str]) -> str | None:
    """A boolean, null or number, if its type is allowed."""
    value = json_value(text) if text[:1] not in ('"', "'") else None
    if value in ("true", "false"):
        return value if "boolean" in types else None
    if value is None or value == "null":
        return value if "null" in types else None
    if value[0] not in "-0123456789":
        return None
    if "number" in types:
        return value
    if "integer" not in types:
        return None
    digits, _, fraction = value.partition(".")
    if not value.lstrip("-").isdigit() and set(fraction) == {"0"}:
        return digits
    return value if value.lstrip("-").isdigit() or _is_whole(value) else None


def _is_whole(number: str) -> bool:
    return math.isfinite(float(number)) and float(number).is_integer()
