"""Reading one JSON value as it comes, and rewriting Python's literals to JSON.

Models write Python's `{'a': True}` where JSON is asked for, and line breaks or unknown escapes in
strings. All that has one meaning is rewritten; strict JSON comes out byte for byte.
"""

from __future__ import annotations

import json
import re
from enum import Enum
from typing import Final

from pantheon.engine.tools.json_word import MAX_NUMBER_CHARS, is_value, json_word

MAX_DEPTH: Final = 128
_BLANKS: Final = re.compile(r"[ \t\r\n]*")
_WORD: Final = re.compile(r"[A-Za-z0-9+\-.]*")
_PLAIN: Final = {'"': re.compile(r'[^"\\\x00-\x1f]*'), "'": re.compile(r"[^'\"\\\x00-\x1f]*")}
_REPLACEMENT: Final = "\\ufffd"
_ESCAPES: Final = {"u": 4, "x": 2}
_HEX: Final = re.compile(r"[0-9a-fA-F]*")
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

    Of a repeated key the first counts and the others are left out; a comma before a closing
    bracket is left out too; half of a character in UTF-16 becomes U+FFFD. A value that JSON has
    no text for (NaN, numbers beyond a double) makes the whole one invalid, though it is read on.
    """

    def __init__(self, *, multiline: bool = True, depth: int = MAX_DEPTH) -> None:
        """Start.

        Args:
            multiline: rewrite line breaks and other control characters in strings that are no
                keys; else they fail.
            depth: most levels of arrays and objects; more fail.
        """
        self._multiline = multiline
        self._depth = depth
        self._stack: list[str] = []
        self._expect = _Expect.VALUE
        self._quote = ""
        self._escape = ""
        self._high = ""
        """An escape that needs another one to make a character."""
        self._word: str | None = None
        self._key: list[str] | None = None
        """Pieces of the JSON text of the key being read."""
        self._held: list[str] = []
        """A comma and what follows it, until it is known to be wanted."""
        self._keys: list[set[str]] = []
        """Keys of each object that is open; a set for each array, too."""
        self._drop_level = 0
        """Level of the object with a repeated key whose value is being left out, or 0."""
        self.has_value = False
        """Whether a string began, or another value was complete, before any invalid one."""
        self.invalid = False
        """Whether there is no JSON text of it, though it is well-formed so far."""
        self.done = False
        """Whether the value is complete. A number at the end of the text is not."""
        self.failed = False
        """Whether the text is no such value."""
        self.unread = ""
        """What was taken before the place where it failed and belongs to what follows."""

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

    def closing(self) -> str | None:
        """Text that completes the value here, or None where none does."""
        brackets = "".join(_CLOSERS[opener] for opener in reversed(self._stack))
        if self.failed or self.invalid or self._escape or self._key is not None:
            return None
        if self._expect is _Expect.COLON:
            return None
        if self._quote:
            return self._quote + brackets
        if self._word is not None:
            return brackets if json_word(self._word) is not None else None
        return None if self._expect is _Expect.VALUE else brackets

    def _put(self, text: str, result: list[str]) -> None:
        if self._key is not None:
            self._key.append(text)
        elif self._held:
            self._held.append(text)
        elif not self._drop_level and not self.invalid:
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
            self._end_drop()
            self._expect = _Expect.NEXT
            return at + 1
        elif expect is not _Expect.VALUE and inside and mark == _CLOSERS[inside]:
            self._held = []
            self._end_drop()
            self._put(mark, result)
            self._stack.pop()
            self._keys.pop()
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
            self.has_value = self.has_value or not self.invalid
            self._put('"', result)
        elif mark in _CLOSERS:
            if len(self._stack) == self._depth:
                self.failed = True
                return at
            self._stack.append(mark)
            self._keys.append(set())
            self._expect = _Expect.FIRST
            self._put(mark, result)
        else:
            self._word = ""
            return at
        return at + 1

    def _end_drop(self) -> None:
        """A value ends on the innermost level."""
        if self._drop_level == len(self._stack):
            self._drop_level = 0

    def _release(self, result: list[str]) -> None:
        held, self._held = self._held, []
        self._put("".join(held), result)

    def _read_string(self, text: str, at: int, result: list[str]) -> int:
        if self._escape:
            return self._read_escape(text, at, result)
        if self._high and text[at] != "\\":
            self._end_high(result)
        end = _PLAIN[self._quote].match(text, at).end()  # type: ignore[union-attr]  # matches ""
        self._put(text[at:end], result)
        if end == len(text):
            return end
        mark = text[end]
        if mark == "\\":
            self._escape = mark
        elif mark == self._quote:
            self._end_string(result)
        elif mark < " " and (self._key is not None or not self._multiline):
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
            self._end_high(result)
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
            self._end_escape("\\u" + self._escape[2:].rjust(4, "0"), result)
        elif at + len(digits) < len(text):
            self.failed = True
        return at + len(digits)

    def _end_escape(self, escape: str, result: list[str]) -> None:
        """An escape is complete; the halves of a character stand in two of them."""
        self._escape = ""
        code = int(escape[2:], 16)
        if self._high and 0xDC00 <= code <= 0xDFFF:
            self._put(self._high + escape, result)
            self._high = ""
            return
        self._end_high(result)
        if 0xD800 <= code <= 0xDBFF:
            self._high = escape
        else:
            self._put(_REPLACEMENT if 0xDC00 <= code <= 0xDFFF else escape, result)

    def _end_high(self, result: list[str]) -> None:
        """The other half of a character does not follow."""
        if self._high:
            self._put(_REPLACEMENT, result)
            self._high = ""

    def _end_string(self, result: list[str]) -> None:
        self._quote = ""
        if self._key is None:
            self._put('"', result)
            self._end_value()
            return
        written, self._key = "".join(self._key) + '"', None
        if not self._drop_level:
            key, keys = json.loads(written), self._keys[-1]
            if key in keys:
                self._drop_level = len(self._stack)
                self._held = []
            keys.add(key)
        self._release(result)
        self._put(written, result)
        self._expect = _Expect.COLON

    def _read_word(self, text: str, at: int, result: list[str]) -> int:
        end = _WORD.match(text, at).end()  # type: ignore[union-attr]  # matches ""
        self._word = (self._word or "") + text[at:end]
        if len(self._word) > MAX_NUMBER_CHARS:
            self.failed, self.unread = True, self._word
        elif end < len(text):
            self._end_word(result)
        return end

    def _end_word(self, result: list[str]) -> None:
        written, self._word = self._word or "", None
        word = json_word(written)
        if word is not None:
            self._put(word, result)
        elif is_value(written):
            self.invalid = True
        else:
            self.failed, self.unread = True, written
            return
        self._end_value()

    def _end_value(self) -> None:
        self._expect = _Expect.COMMA
        self.has_value = self.has_value or not self.invalid
        self.done = not self._stack


def json_value(text: str) -> str | None:
    """The one value that a text is, as strict JSON; None where it is none."""
    reader = JsonReader()
    result, at = reader.read(text.rstrip(" \t\r\n"))
    result += reader.finish()
    is_value = reader.done and not reader.failed and not reader.invalid
    complete = is_value and not text[at:].strip(" \t\r\n")
    return result.strip(" \t\r\n") if complete else None
