"""Texts of arguments between their tags, as the two XML dialects write them."""

from __future__ import annotations

import re
from html import unescape
from typing import Final, Protocol

from pantheon.engine.tools.tags import certain_end

_BREAK: Final = re.compile(r"(?:\r?\n)?")
_CDATA_OPEN: Final = "<![CDATA["
_CDATA_CLOSE: Final = "]]>"
_ENTITY: Final = re.compile(r"&(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6});")
_BEGUN_ENTITY: Final = re.compile(r"&[#a-zA-Z0-9]{0,8}")


class ValueReader(Protocol):
    """Reads one value as it comes, up to a closing tag."""

    def read(self, text: str, at: int) -> tuple[str, int, bool]:
        """Take text from `at` on.

        Returns:
            More of the value, the place behind what was taken, and whether what ends the value
            begins there.
        """
        ...

    def end_of_close(self, text: str, at: int) -> int:
        """The place behind the closing tag that `read` stopped at."""
        ...

    def closing(self, text: str, at: int) -> tuple[str, str]:
        """How to close the value at the text's end.

        Args:
            text: what was read.
            at: where `read` stopped without a closing tag.

        Returns:
            What belongs to the value yet, and the text that closes it.
        """
        ...


class VerbatimReader:
    """A value as it is, but for one line break at either end (Qwen3-Coder)."""

    def __init__(self, close: str) -> None:
        """Read up to `close`."""
        self._close = close
        self._closes = (f"\n{close}", f"\r\n{close}", close)
        self._is_begun = False

    def read(self, text: str, at: int) -> tuple[str, int, bool]:
        if not self._is_begun and at < len(text):
            if text[at:] == "\r":
                return "", at, False
            self._is_begun = True
            at = _BREAK.match(text, at).end()  # type: ignore[union-attr]  # matches ""
        found = text.find(self._close, at)
        if found < 0:
            end = certain_end(text, at, self._closes)
            return text[at:end], end, False
        end = found - (found > at and text[found - 1] == "\n")
        end -= found > end > at and text[end - 1] == "\r"
        return text[at:end], end, True

    def end_of_close(self, text: str, at: int) -> int:
        line_break = _BREAK.match(text, at).end()  # type: ignore[union-attr]  # matches ""
        return line_break + len(self._close)

    def closing(self, text: str, at: int) -> tuple[str, str]:
        for close in self._closes:
            if close.startswith(text[at:]):
                return "", close[len(text) - at :]
        return text[at:], "\n" + self._close


class MarkupReader:
    """A value with CDATA sections, taken verbatim, and entities outside of them (MiniCPM)."""

    def __init__(self, close: str) -> None:
        """Read up to `close` outside of CDATA."""
        self._close = close
        self._stop = re.compile(f"{re.escape(close)}|{re.escape(_CDATA_OPEN)}|&")
        self._in_cdata = False

    def read(self, text: str, at: int) -> tuple[str, int, bool]:
        result: list[str] = []
        while True:
            if self._in_cdata:
                found = text.find(_CDATA_CLOSE, at)
                end = certain_end(text, at, (_CDATA_CLOSE,)) if found < 0 else found
                result.append(text[at:end])
                if found < 0:
                    return "".join(result), end, False
                at = end + len(_CDATA_CLOSE)
                self._in_cdata = False
            stop = self._stop.search(text, at)
            if stop is None:
                end = certain_end(text, at, (self._close, _CDATA_OPEN))
                return "".join((*result, text[at:end])), end, False
            result.append(text[at : stop.start()])
            at = stop.start()
            if stop.group() == self._close:
                return "".join(result), at, True
            if stop.group() == _CDATA_OPEN:
                self._in_cdata = True
                at = stop.end()
                continue
            if _BEGUN_ENTITY.fullmatch(text, at):
                return "".join(result), at, False
            entity = _ENTITY.match(text, at)
            result.append(_character(entity.group()) if entity else "&")
            at = entity.end() if entity else at + 1

    def end_of_close(self, text: str, at: int) -> int:
        return at + len(self._close)

    def closing(self, text: str, at: int) -> tuple[str, str]:
        if self._in_cdata:
            return text[at:], _CDATA_CLOSE + self._close
        if self._close.startswith(text[at:]):
            return "", self._close[len(text) - at :]
        return text[at:], self._close


def _character(entity: str) -> str:
    """What an entity stands for; what is no character of XML stays as it is written."""
    if entity.startswith("&#"):
        digits = entity[2:-1]
        code = int(digits[1:], 16) if digits[0] in "xX" else int(digits)
        allowed = code in (9, 10, 13) or (0x20 <= code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF)
        return chr(code) if allowed else entity
    return unescape(entity)
