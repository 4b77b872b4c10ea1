"""How the model wrote its turns with calls, for the prompts in which they come back."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pantheon.engine.tools.call import ToolCall

MOST_CHARACTERS: Final = 8 << 20
"""Of all turns together; the ones used longest ago are forgotten."""


@dataclass(frozen=True, slots=True)
class _Turn:
    content: str
    calls: tuple[ToolCall, ...]
    written: str


class WrittenTurns:
    """Turns by the id of their first call. Safe to use from several threads.

    A dialect leaves the model some freedom, in whitespace and in the spelling of values, that the
    calls a client sends back do not show. Only the text as it was written continues the tokens
    that were sampled, and with them what is cached. A turn that is not found is written as the
    dialect's templates do.
    """

    def __init__(self, most_characters: int = MOST_CHARACTERS) -> None:
        self._lock = threading.Lock()
        self._turns: OrderedDict[str, _Turn] = OrderedDict()
        self._most = most_characters
        self._characters = 0

    def remember(self, content: str, calls: Sequence[ToolCall], written: str) -> None:
        """Keep a turn.

        Args:
            content: its text without the calls, as the client was given it.
            calls: those the client was given, in order.
            written: all of it as the model wrote it.
        """
        if not calls or len(written) > self._most:
            return
        with self._lock:
            self._turns[calls[0].id] = _Turn(content, tuple(calls), written)
            self._characters += len(written)
            while self._characters > self._most:
                self._characters -= len(self._turns.popitem(last=False)[1].written)

    def text_of(self, content: str, tool_calls: object) -> str | None:
        """What the model wrote, if a client's turn is one that is kept and was not changed.

        Args:
            content: the turn's content as the client sends it.
            tool_calls: what it sends as the calls.
        """
        if not isinstance(tool_calls, Sequence) or not tool_calls:
            return None
        first = tool_calls[0]
        key = first.get("id") if isinstance(first, Mapping) else None
        with self._lock:
            turn = self._turns.get(key) if isinstance(key, str) else None
            if turn is None:
                return None
            self._turns.move_to_end(turn.calls[0].id)
        is_same = (
            content == turn.content
            and len(tool_calls) == len(turn.calls)
            and all(map(_is_same, tool_calls, turn.calls))
        )
        return turn.written if is_same else None


def _is_same(sent: object, call: ToolCall) -> bool:
    if not isinstance(sent, Mapping) or sent.get("id") != call.id:
        return False
    function = sent.get("function")
    if not isinstance(function, Mapping) or function.get("name") != call.name:
        return False
    arguments: Any = function.get("arguments")
    if arguments == call.arguments:
        return True
    # Clients parse arguments and write them again.
    try:
        parsed = json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return False
    return bool(parsed == json.loads(call.arguments))
