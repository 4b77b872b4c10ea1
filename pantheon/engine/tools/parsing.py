"""What the streaming parsers of all dialects have in common for those who use them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from pantheon.engine.tools.call import ToolCallError


@dataclass(frozen=True, slots=True)
class Text:
    """Content.

    Attributes:
        text: never empty.
        end: where it ends in all that was pushed, in characters; whitespace that was left out
            behind it does not count.
    """

    text: str
    end: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class CallOpened:
    """Call number `index` of the answer began: it is certain that it is one."""

    index: int
    name: str


@dataclass(frozen=True, slots=True)
class Arguments:
    """More of a call's arguments; those of a closed call join to the JSON text of an object."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class CallClosed:
    """The call is complete."""

    index: int


@dataclass(frozen=True, slots=True)
class CallFailed:
    """A call that began will not be completed; index is None where it was never opened."""

    index: int | None
    error: ToolCallError


ParserEvent = Text | CallOpened | Arguments | CallClosed | CallFailed


class CallParser(Protocol):
    """Tells calls from text in the content of one answer, in whatever pieces it comes.

    Events of one text are the same for every cut of it, but for how Text and Arguments are cut.
    Nothing raises whatever the text is, and the work is linear in it. Indices count up from 0;
    a call that failed keeps its index. Whitespace around calls is dropped; where text goes on
    behind a call, one of the gaps stays.
    """

    def push(self, text: str) -> list[ParserEvent]:
        """Take more content, without reasoning."""
        ...

    def finish(self, *, compelled: bool = False) -> list[ParserEvent]:
        """The content ended: what was held back is decided. Nothing may follow.

        Args:
            compelled: the answer had to be a call: what may have become one was begun as one.
        """
        ...

    @property
    def inside_call(self) -> bool:
        """Whether a call is open."""
        ...

    def closing_text(self) -> str | None:
        """Text that completes a begun call if the answer ended here.

        Returns:
            Text to push before `finish`; "" where no call is begun, or the begun one needs no
            more than the end; None where the call cannot be closed here: its opener or a value
            is not complete, or required arguments are missing.
        """
        ...


def merged(events: Iterable[ParserEvent]) -> list[ParserEvent]:
    """The events with neighbouring pieces of one text joined."""
    result: list[ParserEvent] = []
    for event in events:
        last = result[-1] if result else None
        if isinstance(event, Text) and isinstance(last, Text):
            result[-1] = Text(last.text + event.text, event.end)
        elif (
            isinstance(event, Arguments)
            and isinstance(last, Arguments)
            and event.index == last.index
        ):
            result[-1] = Arguments(event.index, last.text + event.text)
        else:
            result.append(event)
    return result
