"""Finding calls in the JSON dialect: objects, bare or fenced, between text and other JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from pantheon.engine.tools.call import (
    INVALID_ARGUMENTS,
    MALFORMED_CALL,
    ToolCallError,
    unfinished,
)
from pantheon.engine.tools.json_call import CallState, JsonCallReader
from pantheon.engine.tools.json_reader import JsonReader
from pantheon.engine.tools.parsing import (
    Arguments,
    CallClosed,
    CallFailed,
    CallOpened,
    ParserEvent,
    Text,
)
from pantheon.engine.tools.prose import WHITESPACE, Prose
from pantheon.engine.tools.schema_types import required_arguments
from pantheon.engine.tools.tags import GAP, Match, Tag, beginnings, certain_end
from pantheon.engine.tools.tool import Tool

FENCE: Final = "```"

_FENCE_TAG: Final = Tag(FENCE, rf"(?:json)?{GAP}(?=[\[{{])", f"(?:{beginnings('json', GAP)}|{GAP})")
_ARRAY_TAG: Final = Tag("[", rf"{GAP}(?=\{{)", GAP)
_WRAPPER: Final = "<tool_call>"
"""What models of other dialects write around a call."""
_WRAPPER_CLOSE: Final = "</tool_call>"
_WRAPPER_TAG: Final = Tag(_WRAPPER, rf"{GAP}(?=[\[{{`])", GAP)
_MARK: Final = re.compile(r"```|\[|\{|<tool_call>")
_BRACES: Final = re.compile(r"\{*")
_MOST_BRACES: Final = 2
"""Of those that directly follow one another, how many may open a call."""


class JsonCallParser:
    """The `CallParser` of the JSON dialect.

    An object with any key that a call does not have is an ordinary one, and text as a whole. What
    may yet be a call waits. What is no JSON before the first value of its arguments is text, too;
    behind it the call is left out, and the text goes on at the place where it broke.
    """

    def __init__(self, tools: Sequence[Tool]) -> None:
        """Look for calls of `tools`."""
        self._tools = {tool.name: tool for tool in tools}
        self._prose = Prose()
        self._pushed = 0
        self._text = ""
        self._at = 0
        self._calls = 0
        self._events: list[ParserEvent] = []
        self._reader: JsonCallReader | None = None
        self._start = 0
        """Where the object that may be a call begins in the text."""
        self._prefix = ""
        """What stands before that object and belongs to it if it is a call."""
        self._raw: list[str] = []
        """The object's text of earlier pieces."""
        self._is_open = False
        self._other: JsonReader | None = None
        """Reads an object that is no call."""
        self._closers: list[str] = []
        """What closes the surroundings of the last call, behind it, from the outside in."""
        self._trailing = ""
        """Brackets and commas that belong to it and stand there."""

    @property
    def inside_call(self) -> bool:
        return self._is_open

    def push(self, text: str) -> list[ParserEvent]:
        if self._reader is not None and not self._is_open:
            self._raw.append(self._text[self._start : self._at])
        self._pushed += len(text)
        self._text = self._text[self._at :] + text
        self._at = self._start = 0
        while self._step():
            pass
        events, self._events = self._events, []
        return events

    def finish(self, *, compelled: bool = False) -> list[ParserEvent]:
        events = self.push("")
        reader, rest = self._reader, self._text[self._at :]
        if reader is not None and (compelled or reader.tool is not None):
            function = None if reader.tool is None else reader.tool.name
            error = unfinished(function, reader.argument)
            events.append(CallFailed(self._calls - 1 if self._is_open else None, error))
            self._reader, self._is_open = None, False
            return events
        if reader is not None:
            self._reader = None
            rest = self._prefix + "".join(self._raw) + self._text[self._start :]
        elif self._prose.after_call and any(closer.startswith(rest) for closer in self._closers):
            rest = ""
        elif compelled and rest.strip(WHITESPACE):
            return [*events, CallFailed(None, unfinished(None))]
        if rest := self._prose.add(rest) + self._prose.finish():
            events.append(Text(rest, self._pushed))
        return events

    def closing_text(self) -> str | None:
        if self._reader is None:
            return ""
        if self._reader.tool is None:
            return None
        closing = self._reader.closing(required_arguments(self._reader.tool.parameters))
        if closing is None:
            return None
        brackets = "]" if "]" in self._trailing else ""
        return closing + brackets + "".join(f"\n{closer}" for closer in reversed(self._closers))

    def _step(self) -> bool:
        """Take more text; False when more is needed."""
        if self._reader is not None:
            return self._take_call(self._reader)
        if self._other is not None:
            return self._take_other(self._other)
        return self._take_prose()

    def _take_prose(self) -> bool:
        if self._prose.after_call and self._take_trailing():
            return True
        found = _MARK.search(self._text, self._at)
        if found is None:
            self._add_prose(certain_end(self._text, self._at, (FENCE, _WRAPPER, _WRAPPER_CLOSE)))
            return False
        self._add_prose(found.start())
        run = _BRACES.match(self._text, self._at).end()  # type: ignore[union-attr]  # matches ""
        if run - self._at > _MOST_BRACES:
            self._add_prose(run - _MOST_BRACES)
        start = self._object_start(self._at)
        if start is Match.PENDING:
            return False
        if isinstance(start, Match):
            self._add_prose(found.end())
            return True
        if not self._prose.after_call:
            self._closers, self._trailing = [], ""
        self._prefix = self._text[self._at : start]
        self._reader = JsonCallReader(self._tools)
        self._start = self._at = start
        self._raw = []
        return True

    def _take_trailing(self) -> bool:
        """Take one of the marks that belong to the last call and stand directly behind it."""
        end = self._at
        while end < len(self._text) and self._text[end] in WHITESPACE:
            end += 1
        self._add_prose(end)
        if self._text[end : end + 1] and self._text[end] in self._trailing:
            self._prose.call()
            self._at = end + 1
            if self._text[end] != ",":
                self._trailing = self._trailing.replace(self._text[end], "", 1)
            return True
        for closer in self._closers:
            if self._text.startswith(closer, end):
                self._prose.call()
                self._at = end + len(closer)
                self._closers.remove(closer)
                return True
        return False

    def _object_start(self, at: int) -> int | Match:
        """Where the object stands that the marks at a place lead to."""
        for tag in (_WRAPPER_TAG, _FENCE_TAG, _ARRAY_TAG):
            found = tag.match(self._text, at)
            if found is Match.PENDING:
                return Match.PENDING
            if isinstance(found, tuple):
                at = found[1]
        return at if self._text[at] == "{" else Match.NONE

    def _add_prose(self, end: int) -> None:
        text = self._prose.add(self._text[self._at : end])
        self._at = end
        if text:
            self._events.append(Text(text, self._text_end(end)))

    def _text_end(self, end: int) -> int:
        """Where the text up to `end` ends in all that was pushed, without held back whitespace."""
        return self._pushed - len(self._text) + end - self._prose.held

    def _take_call(self, reader: JsonCallReader) -> bool:
        self._at = reader.read(self._text, self._at)
        if reader.state is CallState.REJECTED:
            self._reject(reader)
            return True
        if reader.tool is not None and reader.state is not CallState.UNDECIDED:
            self._write(reader, reader.tool)
        if reader.state is CallState.FAILED:
            self._text = reader.unread + self._text[self._at :]
            self._at = 0
        if reader.state in (CallState.CLOSED, CallState.FAILED):
            self._reader, self._is_open = None, False
            return True
        return False

    def _write(self, reader: JsonCallReader, tool: Tool) -> None:
        """Report what is new of a call that is certain."""
        if not self._is_open:
            self._enter(reader)
            if reader.state is CallState.CLOSED and not reader.arguments:
                self._events.append(CallFailed(None, _broken(reader, tool)))
                return
            self._is_open = True
            self._events.append(CallOpened(self._calls, tool.name))
            self._calls += 1
        index = self._calls - 1
        if arguments := "".join(reader.arguments):
            self._events.append(Arguments(index, arguments))
        reader.arguments.clear()
        if reader.state is CallState.FAILED or (
            reader.state is CallState.CLOSED and reader.invalid
        ):
            self._events.append(CallFailed(index, _broken(reader, tool)))
        elif reader.state is CallState.CLOSED:
            self._events.append(CallClosed(index))

    def _enter(self, reader: JsonCallReader) -> None:
        """The object is a call, if perhaps not one to be made; its surroundings belong to it."""
        self._prose.call()
        self._raw = []
        around = {_WRAPPER: _WRAPPER_CLOSE, FENCE: FENCE}
        self._closers += [close for mark, close in around.items() if mark in self._prefix]
        in_array = "[" in self._prefix or "]" in self._trailing
        self._trailing = (",]" if in_array else "") + ("}" if reader.has_extra_brace else "")

    def _reject(self, reader: JsonCallReader) -> None:
        """The object is no call: take its text again, as an ordinary one."""
        if self._raw:
            self._raw.append(self._text[self._start :])
            self._text = "".join(self._raw)
            self._start = 0
        if text := self._prose.add(self._prefix):
            self._events.append(Text(text, self._text_end(self._start)))
        self._at = self._start
        self._raw = []
        self._reader = None
        self._other = JsonReader(multiline=reader.has_arguments)

    def _take_other(self, other: JsonReader) -> bool:
        _, end = other.read(self._text, self._at)
        self._add_prose(end)
        if not other.done and not other.failed:
            return False
        self._other = None
        if other.done and "]" in self._trailing:
            self._prose.call()  # It stands in an array of calls, whose brackets are no text.
        return True


def _broken(reader: JsonCallReader, tool: Tool) -> ToolCallError:
    if reader.broken_arguments or reader.invalid:
        message = f"the arguments of a call of {tool.name!r} are no JSON object"
        return ToolCallError(INVALID_ARGUMENTS, message, tool.name, reader.argument)
    message = f"the object with a call of {tool.name!r} is not closed behind its arguments"
    return ToolCallError(MALFORMED_CALL, message, tool.name)
