"""Finding calls in the JSON dialect: objects, bare or fenced, between text and other JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from pantheon.engine.tools.call import (
    INVALID_ARGUMENTS,
    MALFORMED_CALL,
    UNFINISHED_CALL,
    ToolCallError,
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
_MARK: Final = re.compile(r"```|\[|\{")
_BLANK_LINE: Final = "\n\n"


class JsonCallParser:
    """The `CallParser` of the JSON dialect.

    An object with any key that a call does not have is an ordinary one, and text as a whole. What
    may yet be a call waits. A call whose text goes wrong is left out, to the end of its fence or,
    without one, its paragraph.
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
        self._skip_to = ""
        """End of what belongs to a failed call."""
        self._fenced = False
        self._trailing = ""
        """Marks that belong to the last call, behind it."""

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

    def finish(self) -> list[ParserEvent]:
        events = self.push("")
        reader = self._reader
        if reader is not None and reader.tool is not None:
            error = _unfinished(reader.tool.name, reader.argument)
            events.append(CallFailed(self._calls - 1 if self._is_open else None, error))
            self._reader, self._is_open = None, False
            return events
        rest = self._text[self._at :]
        if reader is not None:
            self._reader = None
            rest = self._prefix + "".join(self._raw) + self._text[self._start :]
        elif self._skip_to or (self._prose.after_call and self._fenced and FENCE.startswith(rest)):
            rest = ""
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
        return closing + brackets + (f"\n{FENCE}" if self._fenced else "")

    def _step(self) -> bool:
        """Take more text; False when more is needed."""
        if self._skip_to:
            return self._skip()
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
            self._add_prose(certain_end(self._text, self._at, (FENCE,)))
            return False
        self._add_prose(found.start())
        start = self._object_start(self._at)
        if start is Match.PENDING:
            return False
        if isinstance(start, Match):
            self._add_prose(found.end())
            return True
        if not self._prose.after_call:
            self._fenced, self._trailing = False, ""
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
        if self._fenced and self._text.startswith(FENCE, end):
            self._prose.call()
            self._at = end + len(FENCE)
            self._fenced = False
            return True
        return False

    def _object_start(self, at: int) -> int | Match:
        """Where the object stands that the marks at a place lead to."""
        for tag in (_FENCE_TAG, _ARRAY_TAG):
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
        if reader.state in (CallState.CLOSED, CallState.FAILED):
            self._reader, self._is_open = None, False
            return True
        return False

    def _write(self, reader: JsonCallReader, tool: Tool) -> None:
        """Report what is new of a call that is certain."""
        if not self._is_open:
            self._is_open = True
            self._prose.call()
            self._raw = []
            self._fenced = self._fenced or self._prefix.startswith(FENCE)
            in_array = "[" in self._prefix or "]" in self._trailing
            self._trailing = (",]" if in_array else "") + ("}" if reader.has_extra_brace else "")
            self._events.append(CallOpened(self._calls, tool.name))
            self._calls += 1
        index = self._calls - 1
        if arguments := "".join(reader.arguments):
            self._events.append(Arguments(index, arguments))
        reader.arguments.clear()
        if reader.state is CallState.CLOSED:
            self._events.append(CallClosed(index))
        elif reader.state is CallState.FAILED:
            self._events.append(CallFailed(index, _broken(reader, tool)))
            self._skip_to = FENCE if self._fenced else _BLANK_LINE

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
        return True

    def _skip(self) -> bool:
        found = self._text.find(self._skip_to, self._at)
        if found < 0:
            self._at = certain_end(self._text, self._at, (self._skip_to,))
            return False
        self._at = found + len(self._skip_to)
        self._skip_to = ""
        self._fenced = False
        return True


def _unfinished(function: str, parameter: str | None) -> ToolCallError:
    where = f"the argument {parameter!r} of " if parameter is not None else ""
    message = f"the answer ended inside {where}a call of {function!r}"
    return ToolCallError(UNFINISHED_CALL, message, function, parameter)


def _broken(reader: JsonCallReader, tool: Tool) -> ToolCallError:
    if reader.broken_arguments:
        message = f"the arguments of a call of {tool.name!r} are no JSON object"
        return ToolCallError(INVALID_ARGUMENTS, message, tool.name, reader.argument)
    message = f"the object with a call of {tool.name!r} is not closed behind its arguments"
    return ToolCallError(MALFORMED_CALL, message, tool.name)
