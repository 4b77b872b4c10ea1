"""Calls and results of earlier turns, as a request's history brings them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pantheon.engine.tools.json_reader import json_value
from pantheon.engine.tools.prose import WHITESPACE

RAW_KEY: Final = "arguments"
"""Key under which arguments stand that are no object."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class ReplayedValue:
    """One argument.

    Attributes:
        value: parsed JSON.
        written: JSON text, as the client wrote it where it sent text.
    """

    value: Any
    written: str


@dataclass(frozen=True, slots=True)
class ReplayedCall:
    """A call of an earlier turn.

    Attributes:
        name: the tool's, empty where none was sent.
        arguments: values by key, in order.
        written: JSON text of all arguments, as the client wrote it where it sent text.
    """

    name: str
    arguments: Mapping[str, ReplayedValue]
    written: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool gave back.

    Attributes:
        content: its text.
    """

    content: str


def replayed_calls(value: object) -> tuple[ReplayedCall, ...]:
    """The calls in an assistant message's `tool_calls`; what is no object is left out.

    Arguments are the JSON text of an object, or the object itself. Absent, empty or null they are
    none; anything else becomes one value under `RAW_KEY`. Of a repeated key the first counts, and
    half of a character in UTF-16, which has no tokens, becomes U+FFFD. Nothing raises.
    """
    if not isinstance(value, Sequence) or isinstance(value, str):
        return ()
    return tuple(_call(entry) for entry in value if isinstance(entry, Mapping))


def spaced(value: Any) -> str:
    """JSON text as chat templates write it."""
    return _encodable(json.dumps(value, ensure_ascii=False))


def as_model_wrote(argument: ReplayedValue) -> str:
    """JSON text of an argument that is no string, as the model most likely wrote it.

    Clients that parse and serialise arguments make them compact: what is compact is written with
    the spaces that models learn from their templates, anything else as it came.
    """
    if not isinstance(argument.value, Mapping | Sequence):
        return argument.written
    return spaced(argument.value) if is_compact(argument) else argument.written


def is_compact(argument: ReplayedValue) -> bool:
    """Whether the text of an argument is what a serialiser without spaces writes."""
    compact = json.dumps(argument.value, ensure_ascii=False, separators=(",", ":"))
    return argument.written == compact


def _call(entry: Mapping[str, Any]) -> ReplayedCall:
    function = entry.get("function")
    if not isinstance(function, Mapping):
        function = entry
    name = function.get("name")
    sent = function.get("arguments")
    arguments, written = _arguments(sent)
    return ReplayedCall(_encodable(name) if isinstance(name, str) else "", arguments, written)


def _arguments(sent: Any) -> tuple[Mapping[str, ReplayedValue], str]:
    if sent is None or (isinstance(sent, str) and sent.strip(WHITESPACE) in ("", "null")):
        return {}, "{}"
    text = _object(sent.strip(WHITESPACE)) if isinstance(sent, str) else None
    if text is None:
        text = spaced(sent if isinstance(sent, Mapping) else {RAW_KEY: sent})
    return _members(text), text


def _object(text: str) -> str | None:
    """The text of an object that has one meaning for every reader; None for what is no JSON."""
    value = json_value(text) if text.startswith("{") else None
    if value is None or value == text:
        return value
    try:
        json.loads(text)
    except ValueError:
        return None
    return value


def _encodable(text: str) -> str:
    return _SURROGATE.sub("\ufffd", text)


def _members(text: str) -> Mapping[str, ReplayedValue]:
    """The members of an object in strict JSON, with the text of each value."""
    decoder = json.JSONDecoder()
    members: dict[str, ReplayedValue] = {}
    at = _blank_end(text, 1)
    while text[at] != "}":
        key, at = decoder.raw_decode(text, at)
        start = _blank_end(text, _blank_end(text, at) + 1)
        value, at = decoder.raw_decode(text, start)
        members[key] = ReplayedValue(value, text[start:at])
        at = _blank_end(text, at)
        if text[at] == ",":
            at = _blank_end(text, at + 1)
    return members


def _blank_end(text: str, at: int) -> int:
    while text[at] in WHITESPACE:
        at += 1
    return at
