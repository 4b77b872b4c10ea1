"""What a parser made of a text, checked against what every parser promises."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pantheon.engine.tools import (
    Arguments,
    CallClosed,
    CallFailed,
    CallOpened,
    CallParser,
    Dialect,
    ParserEvent,
    Text,
    Tool,
    ToolCallError,
    merged,
    read_tools,
)
from pantheon.engine.tools.json_dialect import JsonDialect
from pantheon.engine.tools.minicpm import MiniCpmXml
from pantheon.engine.tools.qwen import QwenCoderXml

QWEN = QwenCoderXml()
MINICPM = MiniCpmXml()
JSON = JsonDialect()


@dataclass(frozen=True)
class Parsed:
    """Content, and name and arguments of each complete call."""

    content: str
    calls: tuple[tuple[str, str], ...] = ()
    errors: tuple[ToolCallError, ...] = ()

    @property
    def arguments(self) -> Any:
        """Parsed arguments of the only call."""
        ((_, arguments),) = self.calls
        assert not self.errors
        return json.loads(arguments)

    @property
    def codes(self) -> tuple[tuple[str, str | None, str | None], ...]:
        """Code, function and parameter of each error."""
        return tuple((error.code, error.function, error.parameter) for error in self.errors)


def function(name: str, properties: Any = None, **schema: Any) -> dict[str, Any]:
    """An entry of `tools`."""
    parameters = {"type": "object", "properties": properties or {}, **schema}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


WRITE_FILE = function(
    "write_file",
    {"path": {"type": "string"}, "content": {"type": "string"}, "mode": {"type": "integer"}},
    required=["path", "content"],
)
"""`T` of the scenarios."""
TOOLS = read_tools(
    [WRITE_FILE, function("read", {"filePath": {"type": "string"}}), function("ping")]
)


def events_of(parser: CallParser, pieces: Iterable[str]) -> list[ParserEvent]:
    """All events of a text in pieces."""
    events: list[ParserEvent] = []
    for piece in pieces:
        events += parser.push(piece)
    return events + parser.finish()


def parse(dialect: Dialect, text: str | Sequence[str], tools: Sequence[Tool] = TOOLS) -> Parsed:
    """Parse a text, whole or in pieces, and check the events' order."""
    pieces = [text] if isinstance(text, str) else text
    parser = dialect.parser(tools)
    return collected(events_of(parser, pieces), tools)


def collected(events: Sequence[ParserEvent], tools: Sequence[Tool] = TOOLS) -> Parsed:
    """Put events together as a client does."""
    content = ""
    calls: dict[int, tuple[str, str]] = {}
    errors: list[ToolCallError] = []
    current: int | None = None
    done: list[int] = []
    for event in events:
        match event:
            case Text(text):
                assert text and current is None
                content += text
            case CallOpened(index, name):
                assert current is None and index == len(calls)
                assert name in {tool.name for tool in tools}
                calls[index], current = (name, ""), index
            case Arguments(index, text):
                assert text and index == current
                calls[index] = (calls[index][0], calls[index][1] + text)
            case CallClosed(index):
                assert index == current
                done.append(index)
                current = None
            case CallFailed(index, error):
                assert index == current
                errors.append(error)
                current = None
    assert current is None
    for index in done:
        assert isinstance(strict(calls[index][1]), dict)
    return Parsed(content, tuple(calls[index] for index in done), tuple(errors))


def strict(text: str) -> Any:
    """Parse JSON that no reader refuses and that holds no key twice."""

    def refuse(constant: str) -> Any:
        raise AssertionError(constant)

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len(pairs) == len(dict(pairs))
        return dict(pairs)

    return json.loads(text, parse_constant=refuse, object_pairs_hook=members)


def pieces_of(text: str, cuts: Iterable[int]) -> list[str]:
    """A text cut at places."""
    places = [0, *sorted(cuts), len(text)]
    return [text[a:b] for a, b in pairwise(places)]


def whole(dialect: Dialect, text: str, tools: Sequence[Tool] = TOOLS) -> list[ParserEvent]:
    """Merged events of an uncut text."""
    return merged(events_of(dialect.parser(tools), [text]))
