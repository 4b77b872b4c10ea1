"""Reading the arguments of a call that a model gives as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from pantheon.engine.tools.json_expect import Expect
from pantheon.engine.tools.json_reader import MAX_DEPTH, JsonReader
from pantheon.engine.tools.schema_types import argument_types
from pantheon.engine.tools.typed_value import ValueTyping

_BLANKS: Final = re.compile(r"[ \t\r\n]*")


_CLOSABLE: Final = (Expect.KEY, Expect.COMMA)


class ArgumentsReader:
    """Reads the object of a call's arguments, as a `JsonReader` does.

    Each value gets a type that the tool's schema allows for it, if it can be read as one. Values
    that have it stream as they come; others wait until they are complete.
    """

    def __init__(self, parameters: Mapping[str, Any] | bool) -> None:
        """Read arguments for a tool's schema."""
        self._parameters = parameters
        self._expect = Expect.START
        self._reader: JsonReader | None = None
        """Reads a key where `_typing` is None, else that key's value."""
        self._typing: ValueTyping | None = None
        self._key = ""
        self._is_streaming = False
        self._pieces: list[str] = []
        """The key or value that waits until it is complete."""
        self._held: list[str] = []
        """A comma and what follows it, until it is known to be wanted."""
        self._drops = False
        self.keys: dict[str, None] = {}
        """Those so far, with their values begun or complete."""
        self.has_value = False
        """See `JsonReader`, also for what follows."""
        self.invalid = False
        self.done = False
        self.failed = False
        self.unread = ""
        self.path: str | None = None
        """The argument whose value is being read, or made the object invalid or failed."""

    def read(self, text: str, at: int = 0) -> tuple[str, int]:
        """Take text from `at` on; see `JsonReader.read`."""
        result: list[str] = []
        while at < len(text) and not self.done and not self.failed:
            if self._reader is not None:
                at = self._read_part(self._reader, text, at, result)
                continue
            end = _BLANKS.match(text, at).end()  # type: ignore[union-attr]  # matches ""
            if end > at:
                self._put(text[at:end], result)
            at = self._read_mark(text[end], end, result) if end < len(text) else end
        return "".join(result), at

    def closing(self) -> str | None:
        """Text that completes the object here, or None where none does."""
        if self.failed or self.invalid:
            return None
        if self._typing is not None and self._reader is not None:
            closing = self._reader.closing()
            return None if closing is None else closing + "}"
        return "}" if self._reader is None and self._expect in _CLOSABLE else None

    def _put(self, text: str, result: list[str]) -> None:
        if self._held:
            self._held.append(text)
        elif not self._drops and not self.invalid:
            result.append(text)

    def _read_mark(self, mark: str, at: int, result: list[str]) -> int:
        expect = self._expect
        if expect is Expect.VALUE:
            self._typing = ValueTyping(argument_types(self._parameters, self._key))
            self._is_streaming = self._typing.streams(mark)
            self._reader = JsonReader(depth=MAX_DEPTH - 1)
            return at
        if expect is Expect.KEY and mark in "\"'":
            self._reader = JsonReader(multiline=False)
            return at
        if expect is Expect.START and mark == "{":
            self._put(mark, result)
            self._expect = Expect.KEY
        elif expect is Expect.COLON and mark == ":":
            self._put(mark, result)
            self._expect = Expect.VALUE
        elif expect is Expect.COMMA and mark == ",":
            self._drops = False
            self._held = [mark]
            self._expect = Expect.KEY
        elif expect in _CLOSABLE and mark == "}":
            self._drops = False
            self._held = []
            self._put(mark, result)
            self.has_value = self.has_value or not self.invalid
            self.done = True
        else:
            self.failed = True
            return at
        return at + 1

    def _read_part(self, reader: JsonReader, text: str, at: int, result: list[str]) -> int:
        """Take more of a key or value."""
        piece, at = reader.read(text, at)
        is_value = self._typing is not None
        if is_value and self._is_streaming:
            self._put(piece, result)
        else:
            self._pieces.append(piece)
        if is_value and not self.invalid:
            self.has_value = self.has_value or reader.has_value
            self.invalid = reader.invalid
        if reader.failed:
            self.failed, self.unread = True, reader.unread
        elif reader.done:
            self._reader = None
            written, self._pieces = "".join(self._pieces), []
            if self._typing is None:
                self._end_key(written, result)
            else:
                self._end_value(self._typing, written, result)
        return at

    def _end_key(self, written: str, result: list[str]) -> None:
        self._key = key = json.loads(written)
        self._drops = key in self.keys
        held, self._held = self._held, []
        self._put("".join((*held, written)), result)
        self.keys[key] = None
        if not self.invalid:
            self.path = key
        self._expect = Expect.COLON

    def _end_value(self, typing: ValueTyping, written: str, result: list[str]) -> None:
        if not self._is_streaming and not self.invalid:
            self._put(typing.retyped(written), result)
        if not self.invalid:
            self.path = None
        self._typing = None
        self._expect = Expect.COMMA
