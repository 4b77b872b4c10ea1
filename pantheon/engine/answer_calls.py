"""The tool calls in an answer's content (reference, Tool calling)."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pantheon.engine.events import ToolCallArguments, ToolCallClosed, ToolCallOpened
from pantheon.engine.tools import (
    Arguments,
    CallClosed,
    CallFailed,
    CallOpened,
    CallParser,
    ParserEvent,
    Text,
    ToolCall,
    ToolCallError,
)

CallDelta = ToolCallOpened | ToolCallArguments | ToolCallClosed

Remember = Callable[[str, Sequence[ToolCall], str], None]
"""Told of an answer's text, its calls, and all of it as it was written."""


@dataclass(slots=True)
class _Open:
    """The call that is being written."""

    id: str
    name: str
    arguments: list[str]


class AnswerCalls:
    """Tells calls from text, gives each call its id, and remembers what was called.

    Attributes:
        compelled: whether the answer must be a call. Where it ends inside one that can be closed,
            the closing text is added.
        calls: those that are complete.
        error: the first call that will not be completed.
        completes: whether the content so far is, with a closing text, a call as it must be.
    """

    def __init__(
        self,
        parser: CallParser,
        *,
        compelled: bool,
        remember: Callable[[str, Sequence[ToolCall], str], None] = lambda text, calls, written: (
            None
        ),
    ) -> None:
        """Take the content of one answer, of which nothing came yet.

        Args:
            remember: told of an answer with calls when it has ended; see `WrittenTurns.remember`.
        """
        self.compelled = compelled
        self.calls: list[ToolCall] = []
        self.error: ToolCallError | None = None
        self.completes: Callable[[str, str], bool] = lambda written, closing: True
        self._parser = parser
        self._open: _Open | None = None
        self._remember = remember
        self._raw: list[str] = []
        self._texts: list[str] = []

    @property
    def closing_text(self) -> str | None:
        """What completes the call here, empty where one is complete; None where nothing does."""
        closing = self._parser.closing_text()
        return closing if closing or self.calls or self._open else None

    @property
    def ends_in_whitespace(self) -> bool:
        """Whether the content so far does."""
        return bool(self._raw) and self._raw[-1][-1:].isspace()

    def push(self, text: str) -> list[Text | CallDelta]:
        """Take more content."""
        self._raw.append(text)
        return [delta for event in self._parser.push(text) if (delta := self._delta(event))]

    def finish(self, *, cut: bool) -> list[Text | CallDelta]:
        """The content ended.

        Args:
            cut: by a limit, and not because the model was done.
        """
        found: list[Text | CallDelta] = []
        closing = self._parser.closing_text() if self.compelled and not cut else None
        if closing and self.completes("".join(self._raw), closing):
            found = self.push(closing)
        events = self._parser.finish(compelled=self.compelled)
        found += [delta for event in events if (delta := self._delta(event))]
        self._remember("".join(self._texts), self.calls, "".join(self._raw))
        return found

    def _delta(self, event: ParserEvent) -> Text | CallDelta | None:
        match event:
            case Text(text):
                self._texts.append(text)
                return event
            case CallOpened(index, name):
                self._open = _Open(f"call_{secrets.token_hex(12)}", name, [])
                return ToolCallOpened(index, self._open.id, name)
            case Arguments(index, text):
                if self._open is not None:
                    self._open.arguments.append(text)
                return ToolCallArguments(index, text)
            case CallClosed(index):
                if self._open is not None:
                    arguments = "".join(self._open.arguments)
                    self.calls.append(ToolCall(self._open.id, self._open.name, arguments))
                self._open = None
                return ToolCallClosed(index)
            case CallFailed(_, error):
                self._open = None
                self.error = self.error or error
                return None
