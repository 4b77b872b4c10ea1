"""Reading one object that may be a call in the JSON dialect."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from pantheon.engine.tools.json_arguments import ArgumentsReader
from pantheon.engine.tools.json_expect import Expect
from pantheon.engine.tools.json_reader import JsonReader, json_value
from pantheon.engine.tools.prose import WHITESPACE
from pantheon.engine.tools.tool import Tool

_NAME_KEYS: Final = ("name", "function")
_ARGUMENTS_KEYS: Final = ("arguments", "parameters")
_OTHER_KEYS: Final = ("id", "type")
_MAX_SHORT_CHARS: Final = 2048
"""Longest JSON text of a key or name."""


class CallState(Enum):
    """What is known of the object."""

    UNDECIDED = "undecided"
    OPEN = "open"
    CLOSED = "closed"
    REJECTED = "rejected"
    """It is no call."""
    FAILED = "failed"
    """It is a call that cannot be completed, and no part of what follows."""


class _Role(Enum):
    """What the value that is being read is for."""

    KEY = "key"
    NAME = "name"
    ARGUMENTS = "arguments"
    OTHER = "other"


class JsonCallReader:
    """Reads an object from its brace on: `{"name" or "function": NAME, "arguments": {...}}`.

    The function may also be an object with a name and arguments, as in OpenAI's format; arguments
    may be a string that holds the object; `id` and `type` may stand beside them. The call is open
    once the offered name and the first value of the arguments are there, whichever comes first:
    until then it may be text about calls. An object whose arguments cannot be used is closed
    without having been open.
    """

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        """Look for a call of `tools`, by name."""
        self._tools = tools
        self.state = CallState.UNDECIDED
        self.tool: Tool | None = None
        """The called tool, once its name came."""
        self.has_extra_brace = False
        """Whether a second brace followed the first."""
        self.arguments: list[str] = []
        """JSON text of the arguments that came since the list was emptied."""
        self.invalid = False
        """Whether the arguments are no JSON object, though they end like a value."""
        self.broken_arguments = False
        """Of a failed call: whether its arguments are what is wrong."""
        self.unread = ""
        """What was taken before the place where it failed and belongs to what follows."""
        self._level = 0
        self._expect = Expect.START
        self._key = ""
        self._role = _Role.KEY
        self._value: JsonReader | ArgumentsReader | None = None
        self._pieces: list[str] = []
        self._size = 0
        self._has_arguments = False
        self._arguments: ArgumentsReader | None = None
        """Where the arguments are known to be an object of the called tool."""
        self._complete: str | None = None
        """The arguments, where they came before the name."""

    @property
    def has_arguments(self) -> bool:
        """Whether the arguments began."""
        return self._has_arguments

    @property
    def argument(self) -> str | None:
        """The argument that is being read, or that broke the call."""
        return self._arguments.path if self._arguments is not None else None

    def read(self, text: str, at: int) -> int:
        """Take text from `at` on; returns where the object ended or broke off, else the end."""
        while at < len(text) and self.state in (CallState.UNDECIDED, CallState.OPEN):
            if self._value is not None:
                at = self._read_value(self._value, text, at)
            elif text[at] in WHITESPACE:
                at += 1
            else:
                at = self._read_mark(text[at], at)
        return at

    def closing(self, required: frozenset[str]) -> str | None:
        """Text that completes the call, or None where none does."""
        arguments = self._arguments
        if arguments is None or self.invalid or not required <= arguments.keys.keys():
            return None
        braces = "}" * (self._level + 1)
        if self._value is arguments:
            closing = arguments.closing()
            return None if closing is None else closing + braces
        return braces if self._expect is Expect.COMMA else None

    def _break(self) -> None:
        """The text is no such object."""
        is_open = self.state is CallState.OPEN
        self.broken_arguments = self._value is not None and self._value is self._arguments
        self.state = CallState.FAILED if is_open else CallState.REJECTED
        self._value = None

    def _read_mark(self, mark: str, at: int) -> int:
        expect = self._expect
        if expect is Expect.START:
            self._expect = Expect.KEY
        elif expect is Expect.VALUE:
            return self._begin_value(mark, at)
        elif expect is Expect.COLON and mark == ":":
            self._expect = Expect.VALUE
        elif expect is Expect.COMMA and mark == ",":
            self._expect = Expect.KEY
        elif expect in (Expect.KEY, Expect.COMMA) and mark == "}":
            self._close_level()
        elif expect is Expect.KEY and mark in "\"'":
            self._begin(_Role.KEY)
            return at
        elif mark == "{" and expect is Expect.KEY and not self._key and not self.has_extra_brace:
            self.has_extra_brace = True
        else:
            self._break()
            return at
        return at + 1

    def _close_level(self) -> None:
        if self._level:
            self._level -= 1
            self._expect = Expect.COMMA
        elif self.state is CallState.OPEN or (self.tool is not None and self.invalid):
            self.state = CallState.CLOSED
        else:
            self._break()

    def _begin(self, role: _Role) -> None:
        self._role = role
        self._value = JsonReader(multiline=role is _Role.ARGUMENTS)
        self._pieces = []
        self._size = 0

    def _begin_value(self, mark: str, at: int) -> int:
        if self._key == "function" and mark == "{" and not self._level and self.tool is None:
            self._level = 1
            self._expect = Expect.KEY
            return at + 1
        if self._key in _ARGUMENTS_KEYS and not self._has_arguments:
            self._has_arguments = True
            self._begin(_Role.ARGUMENTS)
            if self.tool is not None and mark == "{":
                self._value = self._arguments = ArgumentsReader(self.tool.parameters)
        elif self._key in _NAME_KEYS and self.tool is None:
            self._begin(_Role.NAME)
        else:
            self._begin(_Role.OTHER)
        return at

    def _read_value(self, value: JsonReader | ArgumentsReader, text: str, at: int) -> int:
        piece, at = value.read(text, at)
        if isinstance(value, ArgumentsReader):
            self.arguments.append(piece)
            self.invalid = value.invalid
            if value.has_value:
                self.state = CallState.OPEN
        elif self._role is not _Role.OTHER:
            self._pieces.append(piece)
            self._size += len(piece)
        is_short = self._role in (_Role.KEY, _Role.NAME)
        is_broken = value.failed or (value.invalid and self._role is not _Role.ARGUMENTS)
        if is_broken or (is_short and self._size > _MAX_SHORT_CHARS):
            self.unread = value.unread
            self._break()
        elif value.done:
            self._value = None
            self._expect = Expect.COLON if self._role is _Role.KEY else Expect.COMMA
            if isinstance(value, JsonReader):
                self._end_value("".join(self._pieces), is_valid=not value.invalid)
        return at

    def _end_value(self, written: str, *, is_valid: bool) -> None:
        if self._role is _Role.KEY:
            self._key = json.loads(written)
            is_known = self._key in (*_NAME_KEYS, *_ARGUMENTS_KEYS, *_OTHER_KEYS)
            if not is_known and self.state is CallState.UNDECIDED:
                self._break()
        elif self._role is _Role.NAME:
            name: Any = json.loads(written)
            self.tool = self._tools.get(name) if isinstance(name, str) else None
            if self.tool is None:
                self._break()
            else:
                self._open_if_complete(self.tool)
        elif self._role is _Role.ARGUMENTS:
            self._complete = _object_of(written) if is_valid else None
            self.invalid = self._complete is None
            if self.tool is not None:
                self._open_if_complete(self.tool)

    def _open_if_complete(self, tool: Tool) -> None:
        if self._complete is not None:
            self._arguments = ArgumentsReader(tool.parameters)
            self.arguments.append(self._arguments.read(self._complete)[0])
            self.state = CallState.OPEN


def _object_of(written: str) -> str | None:
    """The object that complete arguments are, or that stands in them as a string."""
    if written.startswith('"'):
        held = json.loads(written).strip(WHITESPACE)
        written = (json_value(held) if held else "null") or ""
    if written == "null":
        return "{}"
    return written if written.startswith("{") else None
