"""Log lines that stay lines, whatever a client's names and paths hold."""

from __future__ import annotations

import logging
from typing import Final

_MOST_CHARACTERS: Final = 2000


class OneLine(logging.Filter):
    """Escapes what is not printable in the messages of one logger's tree, and bounds them.

    Without it a name with a line break would write a line of its own into the log. Tracebacks are
    ours and stay as they are.
    """

    def __init__(self, root: str) -> None:
        """Filter the records of `root` and of all loggers below it, and let every record pass."""
        super().__init__()
        self._root = root

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite the record in place."""
        if record.name.partition(".")[0] == self._root:
            record.msg, record.args = one_line(record.getMessage()), ()
        return True


def one_line(text: str) -> str:
    """The text in one line of bounded length, control and format characters escaped."""
    cut = text[:_MOST_CHARACTERS]
    shown = "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in cut
    )
    return shown if len(text) == len(cut) else f"{shown}... ({len(text)} characters)"
