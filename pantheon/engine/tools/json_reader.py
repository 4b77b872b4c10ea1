"""Reading one JSON value as it comes, and rewriting Python's literals to JSON.

Models write Python's `{'a': True}` where JSON is asked for, and line breaks or unknown escapes in
strings. All that has one meaning is rewritten; strict JSON comes out byte for byte.
"""

from __future__ import annotations

import json
import math
import re
from enum import Enum
from typing import Final

MAX_DEPTH: Final = 128
MAX_NUMBER_CHARS: Final = 308
"""Longer numbers are refused: readers disagree about them, Python's refuses above 4300 digits."""

_BLANKS: Final = re.compile(r"[ \t\r\n]*")
_WORD: Final = re.compile(r"[A-Za-z0-9+\-.]*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_PLAIN: Final = {'"': re.compile(r'[^"\\\x00-\x1f]*'), "'": re.compile(r"[^'\"\\\x00-\x1f]*")}
_ESCAPES: Final = {"u": 4, "x": 2}
_HEX: Final = re.compile(r"[0-9a-fA-F]*")
_WORDS: Final = {
    "true": "true",
    "false": "false",
    "null": "null",
    "True": "true",
    "False": "false",
    "None": "null",
}
_CLOSERS: Final = {"{": "}", "[": "]"}


class _Expect(Enum):
    """What may come next outside of strings and words."""

    VALUE = "value"
    FIRST = "first key or value, or the end"
    NEXT = "key or value behind a comma, or the end"
    COLON = "colon"
    COMMA = "comma or the end"


class JsonReader:
    """Reads one value from any pieces of text and rewrites it to strict JSON.

    Of a repeated key of the outermost object the first counts and the others are left out; a
    comma before a closing bracket is left out too. What is read as a value but has no single
    meaning (NaN, numbers beyond a double, depths beyond `MAX_DEPTH`) fails.
    """

    def __init__(self, *, multiline: bool = True) -> None:
        """Start.

        Args:
            multiline: rewrite line breaks and other control characters in strings; else they fail.
        """
        self._multiline = multiline
        self._stack: list[str] = []
        self._expect = _Expect.VALUE
        self._quote = ""
        self._escape = ""
        self._word: str | None = None
        self._key: list[str] | None = None
        """Pieces of the JSON text of the key being read."""
        self._held: list[str] = []
        """A comma and what follows it, until it is known to be wanted."""
        self._drops = False
        self.keys: dict[str, None] = {}
        """Keys of the outermost object so far, with their values begun or complete."""
        self.done = False
        """Whether the value is complete. A number at the end of the text is not."""
        self.failed = False
        """Whether the text is no such value."""

    def read(self, text: str, at: int = 0) -> tuple[str, int]:
        """Take text from `at` on.

        Returns:
            JSON text, and the place behind what was taken: the text's end unless the value is
            complete or failed.
        """
        result: list[str] = []
        while at < len(text) and not self.done and not self.failed:
            if self._quote:
                at = self._read_string(text, at, result)
            elif self._word is not None:
                at = self._read_word(text, at, result)
            else:
                end = _BLANKS.match(text, at).end()  # type: ignore[union-attr]  # matches ""
                if end > at:
                    self._put(text[at:end], result)
                at = self._read_mark(text, end, result) if end < len(text) else end
        return "".join(result), at

    def finish(self) -> str:
        """The text ended: completes a number or word at its end."""
        result: list[str] = []
        if self._word is not None and not self.failed:
            self._end_word(result)
        return "".join(result)

    @property
    def path(self) -> str | None:
        """The outermost object's key that is being read or has been read last."""
        return next(reversed(self.keys), None)

    def closing(self) -> str | None:
        """Text that completes the value here, or None where none does."""
        brackets = "".join(_CLOSERS[opener] for opener in reversed(self._stack))
        if self.failed or self._escape or self._key is not None or self._expect is _Expect.COLON:
            return None
        if self._quote:
            return self._quote + brackets
        if self._word is not None:
            return brackets if _json_word(self._word) is not None else None
        return None if self._expect is _Expect.VALUE else brackets

    def _put(self, text: str, result: list[str]) -> None:
        if self._key is not None:
            self._key.append(text)
        elif self._held:
            self._held.append(text)
        elif not self._drops:
            result.append(text)

    def _read_mark(self, text: str, at: int, result: list[str]) -> int:
        """Take a bracket, comma or colon, or begin a string or word."""
        mark, expect = text[at], self._expect
        inside = self._stack[-1] if self._stack else ""
        if expect is _Expect.COLON:
            if mark == ":":
                self._put(mark, result)
                self._expect = _Expect.VALUE
                return at + 1
        elif expect is _Expect.COMMA and mark == ",":
            self._held = [mark]
            self._drops = self._drops and len(self._stack) > 1
            self._expect = _Expect.NEXT
            return at + 1
        elif expect is not _Expect.VALUE and inside and mark == _CLOSERS[inside]:
            self._held = []
            if len(self._stack) == 1:
                self._drops = False
            self._put(mark, result)
            self._stack.pop()
            self._end_value()
            return at + 1
        elif expect is not _Expect.COMMA:
            is_key = inside == "{" and expect is not _Expect.VALUE
            return self._begin(mark, at, is_key, result)
        self.failed = True
        return at

    def _begin(self, mark: str, at: int, is_key: bool, result: list[str]) -> int:
        """Begin a key or a value."""
        if is_key:
            if mark not in _PLAIN:
                self.failed = True
                return at
            self._quote, self._key = mark, ['"']
            return at + 1
        self._release(result)
        if mark in _PLAIN:
            self._quote = mark
            self._put('"', result)
        elif mark in _CLOSERS:
            if len(self._stack) == MAX_DEPTH:
                self.failed = True
                return at
            self._stack.append(mark)
            self._expect = _Expect.FIRST
            self._put(mark, result)
        else:
            self._word = ""
            return at
        return at + 1

    def _release(self, result: list[str]) -> None:
        held, self._held = self._held, []
        self._put("".join(held), result)

    def _read_string(self, text: str, at: int, result: list[str]) -> int:
        if self._escape:
            return self._read_escape(text, at, result)
        end = _PLAIN[self._quote].match(text, at).end()  # type: ignore[union-attr]  # matches ""
        self._put(text[at:end], result)
        if end == len(text):
            return end
        mark = text[end]
        if mark == "\\":
            self._escape = mark
        elif mark == self._quote:
            self._end_string(result)
        elif mark < " " and not self._multiline:
            self.failed = True
            return end
        else:  # a control character, or a double quote between single ones
            self._put(json.dumps(mark)[1:-1], result)
        return end + 1

    def _read_escape(self, text: str, at: int, result: list[str]) -> int:
        kind = self._escape[1:2]
        if not kind:
            kind = text[at]
            if kind in _ESCAPES:
                self._escape += kind
                return at + 1
            self._escape = ""
            if kind in '"\\/bfnrt':
                self._put("\\" + kind, result)
                return at + 1
            if kind == "'":
                self._put(kind, result)
                return at + 1
            # Python keeps the backslash of an unknown escape.
            self._put("\\\\", result)
            return at
        need = _ESCAPES[kind] + 2 - len(self._escape)
        digits = _HEX.match(text, at, at + need).group()  # type: ignore[union-attr]  # matches ""
        self._escape += digits
        if len(digits) == need:
            self._put("\\u" + self._escape[2:].rjust(4, "0"), result)
            self._escape = ""
        elif at + len(digits) < len(text):
            self.failed = True
        return at + len(digits)

    def _end_string(self, result: list[str]) -> None:
        self._quote = ""
        if self._key is None:
            self._put('"', result)
            self._end_value()
            return
        written, self._key = "".join(self._key) + '"', None
        if len(self._stack) == 1:
            key = json.loads(written)
            self._drops = key in self.keys
            self.keys[key] = None
        if self._drops:
            self._held = []
        self._release(result)
        self._put(written, result)
        self._expect = _Expect.COLON

    def _read_word(self, text: str, at: int, result: list[str]) -> int:
        end = _WORD.match(text, at).end()  # type: ignore[union-attr]  # matches ""
        self._word = (self._word or "") + text[at:end]
        if len(self._word) > MAX_NUMBER_CHARS:
            self.failed = True
        elif end < len(text):
            self._end_word(result)
        return end

    def _end_word(self, result: list[str]) -> None:
        word = _json_word(self._word or "")
        self._word = None
        if word is None:
            self.failed = True
            return
        self._put(word, result)
        self._end_value()

    def _end_value(self) -> None:
        self._expect = _Expect.COMMA
        self.done = not self._stack


def json_value(text: str) -> str | None:
    """The one value that a text is, as strict JSON; None where it is none."""
    reader = JsonReader()
    result, at = reader.read(text.rstrip(" \t\r\n"))
    result += reader.finish()
    complete = reader.done and not reader.failed and not text[at:].strip(" \t\r\n")
    return result.strip(" \t\r\n") if complete else None


def _json_word(word: str) -> str | None:
    if word in _WORDS:
        return _WORDS[word]
    if len(word) > MAX_NUMBER_CHARS or not _NUMBER.fullmatch(word):
        return None
    return word if math.isfinite(float(word)) else None
