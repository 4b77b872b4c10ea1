"""The text around calls."""

from __future__ import annotations

from typing import Final

WHITESPACE: Final = " \t\r\n"


class Prose:
    """Passes text on, but holds whitespace back until it is known not to stand beside a call."""

    def __init__(self) -> None:
        self._is_begun = False
        self._after_call = False
        self._before: list[str] = []
        self._behind: list[str] = []
        self._ends_line = True

    @property
    def after_call(self) -> bool:
        """Whether nothing but whitespace came since the last call."""
        return self._after_call

    @property
    def at_line_start(self) -> bool:
        """Whether nothing but spaces stands before this place in its line."""
        return self._ends_line or self._after_call

    @property
    def held(self) -> int:
        """Characters of whitespace held back behind the text that was passed on last."""
        return sum(map(len, self._before))

    def add(self, text: str) -> str:
        """Take text; returns what is certain to be content."""
        visible = text.rstrip(WHITESPACE)
        blanks = text[len(visible) :]
        if not visible:
            (self._behind if self._after_call else self._before).append(blanks)
            self._ends_line = self._ends_line or "\n" in blanks
            return ""
        if self._after_call:
            first = visible.lstrip(WHITESPACE)
            self._behind.append(visible[: len(visible) - len(first)])
            visible = first
            if not any(self._before):
                self._before = self._behind
            if not self._is_begun:
                self._before = []
        result = "".join(self._before) + visible
        self._before = [blanks]
        self._behind = []
        self._is_begun, self._after_call, self._ends_line = True, False, "\n" in blanks
        return result

    def call(self) -> None:
        """A call, or a mark that belongs to it, stands here."""
        self._after_call = True
        self._behind = []

    def finish(self) -> str:
        """The text ended; returns the whitespace at its end, unless it stands behind a call."""
        return "" if self._after_call else "".join(self._before)
