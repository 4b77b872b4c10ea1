"""Finding calls in the two XML dialects, which differ in their tags and in how values stand."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pantheon.engine.tools.call import ToolCallError, unfinished
from pantheon.engine.tools.parsing import (
    Arguments,
    CallClosed,
    CallFailed,
    CallOpened,
    ParserEvent,
    Text,
)
from pantheon.engine.tools.prose import Prose
from pantheon.engine.tools.schema_types import argument_types, required_arguments
from pantheon.engine.tools.tags import Match, behind_gap, certain_end
from pantheon.engine.tools.tool import Tool
from pantheon.engine.tools.typed_value import ValueTyping, ValueWriter
from pantheon.engine.tools.xml_syntax import XmlSyntax
from pantheon.engine.tools.xml_values import ValueReader


@dataclass(slots=True)
class _Call:
    """The open call."""

    index: int
    tool: Tool
    required: frozenset[str]
    keys: set[str]
    key: str | None = None
    reader: ValueReader | None = None
    writer: ValueWriter | None = None
    """None for the value of a repeated key."""


@dataclass(frozen=True, slots=True)
class _Parameter:
    """An argument begins; its value stands at `end`."""

    key: str
    end: int


@dataclass(frozen=True, slots=True)
class _FunctionEnd:
    """The call is complete; what follows stands at `end`."""

    end: int


class XmlCallParser:
    """The `CallParser` of an XML dialect.

    A call is certain with the opener of an offered function and what may stand in it: an argument
    or its end. A closing tag of an argument is one only where an argument, or the end of the call,
    follows it, and no further closing tag of an argument comes behind that end: else it is part of
    a value that is about calls. Of a repeated key the first counts.
    """

    def __init__(self, syntax: XmlSyntax, tools: Sequence[Tool]) -> None:
        """Look for calls of `tools`."""
        self._syntax = syntax
        self._tools = {tool.name: tool for tool in tools}
        self._closers = (syntax.function_close.literal, syntax.wrapper_close.literal)
        self._literals = (syntax.wrapper.literal, syntax.function.literal, *self._closers)
        self._mark = re.compile("|".join(map(re.escape, self._literals)))
        self._prose = Prose()
        self._pushed = 0
        self._text = ""
        self._at = 0
        self._calls = 0
        self._call: _Call | None = None
        self._at_close = False
        self._ended = False
        self._events: list[ParserEvent] = []

    @property
    def inside_call(self) -> bool:
        return self._call is not None

    def push(self, text: str) -> list[ParserEvent]:
        self._pushed += len(text)
        self._text = self._text[self._at :] + text
        self._at = 0
        while self._take_prose() if self._call is None else self._take_value(self._call):
            pass
        events, self._events = self._events, []
        return events

    def finish(self, *, compelled: bool = False) -> list[ParserEvent]:
        self._ended = True
        events = self.push("")
        if self._call is not None:
            events.append(CallFailed(self._call.index, self._unfinished(self._call)))
            self._call = None
        elif (function := self._begun_call()) is not None:
            events.append(CallFailed(None, unfinished(function or None)))
        else:
            self._finish_prose(self._text[self._at :], compelled)
            events += self._events
        return events

    def _finish_prose(self, held: str, compelled: bool) -> None:
        """The content ended in what may have become a tag, or in text."""
        if self._prose.after_call and any(closer.startswith(held) for closer in self._closers):
            return
        if compelled and held:
            self._events.append(CallFailed(None, unfinished(None)))
        elif rest := self._prose.add(held) + self._prose.finish():
            self._events.append(Text(rest, self._pushed))

    def closing_text(self) -> str | None:
        call = self._call
        if call is None or call.reader is None:
            return self._closing_of_opener()
        held, rest, at = "", "", len(self._text)
        if self._at_close:
            at = call.reader.end_of_close(self._text, self._at)
            if isinstance(self._structure(at), _FunctionEnd):
                return ""
        else:
            held, rest = call.reader.closing(self._text, self._at)
        if not call.required <= call.keys:
            return None
        if call.writer is not None and not call.writer.could_close(held):
            return None
        closing = self._closing_of_call(self._text, at)
        return None if closing is None else rest + closing

    def _closing_of_call(self, text: str, at: int) -> str | None:
        """What closes a call behind its last argument or its opener at `at`."""
        syntax = self._syntax
        begun = behind_gap(text, at)
        rest = syntax.function_close.begun_text(text, begun)
        if rest is None:
            return None
        gap = syntax.between if at == len(text) else ""
        return gap + rest + syntax.behind

    def _closing_of_opener(self) -> str | None:
        """What closes a call of which only the opener came."""
        function = self._begun_call()
        if function is None:
            return ""
        tool = self._tools.get(function)
        if tool is None or required_arguments(tool.parameters):
            return None
        _, end = self._opener(self._at)
        return self._closing_of_call(self._text, end)

    def _take_prose(self) -> bool:
        """Take text up to the next tag; False when more is needed."""
        found = self._mark.search(self._text, self._at)
        if found is None:
            self._add_prose(certain_end(self._text, self._at, self._literals))
            return False
        self._add_prose(found.start())
        if found.group() in self._closers:
            if self._prose.after_call:
                self._prose.call()
                self._at = found.end()
            else:
                self._add_prose(found.end())
            return True
        tool, end = self._opener(self._at)
        inside = self._structure(end) if isinstance(tool, Tool) else tool
        if inside is Match.PENDING:
            return False
        if isinstance(tool, Tool) and isinstance(inside, _Parameter | _FunctionEnd):
            self._open_call(tool, inside)
        else:
            self._add_prose(found.end())
        return True

    def _add_prose(self, end: int) -> None:
        text = self._prose.add(self._text[self._at : end])
        self._at = end
        if text:
            self._events.append(Text(text, self._text_end(end)))

    def _text_end(self, end: int) -> int:
        """Where the text up to `end` ends in all that was pushed, without held back whitespace."""
        return self._pushed - len(self._text) + end - self._prose.held

    def _opener(self, at: int) -> tuple[Tool | Match, int]:
        """The offered tool whose call opens at `at`, and the place behind the opener."""
        wrapper = self._syntax.wrapper.match(self._text, at)
        if isinstance(wrapper, tuple):
            at = behind_gap(self._text, wrapper[1])
        function = self._syntax.function.match(self._text, at)
        if isinstance(function, Match):
            return function, at
        return self._tools.get(function[0], Match.NONE), function[1]

    def _structure(self, at: int) -> _Parameter | _FunctionEnd | Match:
        """What stands in a call behind the tag that ends at `at`."""
        alone = self._syntax.alone
        if alone and self._text.endswith(alone, 0, at):
            return _FunctionEnd(at)
        at = behind_gap(self._text, at)
        parameter = self._syntax.parameter.match(self._text, at)
        if isinstance(parameter, tuple):
            return _Parameter(*parameter)
        end = self._syntax.function_close.match(self._text, at)
        if isinstance(end, tuple):
            return _FunctionEnd(end[1])
        wrapper = self._syntax.wrapper_close.match(self._text, at)
        if isinstance(wrapper, tuple):
            return _FunctionEnd(at)  # The closing tag of the function was left out.
        return Match.PENDING if Match.PENDING in (parameter, end, wrapper) else Match.NONE

    def _open_call(self, tool: Tool, inside: _Parameter | _FunctionEnd) -> None:
        self._prose.call()
        self._call = _Call(self._calls, tool, required_arguments(tool.parameters), set())
        self._calls += 1
        self._events.append(CallOpened(self._call.index, tool.name))
        self._go_on(self._call, inside)

    def _go_on(self, call: _Call, inside: _Parameter | _FunctionEnd) -> None:
        """Begin the next argument, or close the call."""
        self._at = inside.end
        self._at_close = False
        if isinstance(inside, _FunctionEnd):
            self._write("}" if call.keys else "{}")
            self._events.append(CallClosed(call.index))
            self._call = None
            return
        call.key = inside.key
        call.reader = self._syntax.value()
        call.writer = None
        if inside.key not in call.keys:
            lead = f"{', ' if call.keys else '{'}{json.dumps(inside.key, ensure_ascii=False)}: "
            typing = ValueTyping(argument_types(call.tool.parameters, inside.key))
            call.keys.add(inside.key)
            call.writer = ValueWriter(lead, typing)
            self._write(call.writer.add(""))

    def _take_value(self, call: _Call) -> bool:
        """Take more of the argument's value; False when more is needed."""
        reader = call.reader
        if reader is None:
            return False
        if not self._at_close:
            text, self._at, self._at_close = reader.read(self._text, self._at)
            if call.writer is not None:
                self._write(call.writer.add(text))
            if not self._at_close:
                return False
        end = reader.end_of_close(self._text, self._at)
        inside = self._behind_argument(end)
        if inside is Match.PENDING:
            return False
        if isinstance(inside, Match):
            if call.writer is not None:
                self._write(call.writer.add(self._text[self._at : end]))
            self._at, self._at_close = end, False
            return True
        if call.writer is not None:
            self._write(call.writer.close())
        self._go_on(call, inside)
        return True

    def _behind_argument(self, at: int) -> _Parameter | _FunctionEnd | Match:
        """What the closing tag of an argument before `at` makes way for, if it is one."""
        inside = self._structure(at)
        if not isinstance(inside, _FunctionEnd):
            return inside
        after = behind_gap(self._text, inside.end)
        wrapper = self._syntax.wrapper_close.match(self._text, after)
        if isinstance(wrapper, tuple):
            after = behind_gap(self._text, wrapper[1])
        close = self._syntax.parameter_close.match(self._text, after)
        if isinstance(close, tuple):
            return Match.NONE
        return Match.PENDING if Match.PENDING in (wrapper, close) and not self._ended else inside

    def _write(self, arguments: str) -> None:
        if self._call is not None and arguments:
            self._events.append(Arguments(self._call.index, arguments))

    def _begun_call(self) -> str | None:
        """The function whose call begins at the text's end, "" if its name is not complete.

        None where nothing begins: tags within a line are taken for text that is about them.
        """
        if self._call is not None or not self._prose.at_line_start:
            return None
        found = self._mark.match(self._text, self._at)
        if found is None or found.group() in self._closers:
            return None
        tool, at = self._opener(self._at)
        if isinstance(tool, Tool):
            return tool.name
        if tool is Match.NONE:
            return None
        begun_name = self._syntax.function.begun_name(self._text, at)
        return "" if any(name.startswith(begun_name) for name in self._tools) else None

    def _unfinished(self, call: _Call) -> ToolCallError:
        return unfinished(call.tool.name, None if self._at_close else call.key)
