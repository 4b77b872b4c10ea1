"""Reasoning of earlier turns in the prompt, also where the template would drop it.

Templates render a turn's reasoning only after the last user message. A session resumes from what
it has computed only if the next prompt begins with the last prompt and its answer, so reasoning
that a client sends back is rendered in every turn (reference, `messages[].reasoning_content`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pantheon.engine.tokenizer.think import THINK_CLOSE, THINK_OPEN, ThinkStyle


@dataclass(frozen=True, slots=True)
class MarkedConversation:
    """A conversation whose replayed turns carry marks: `MARK number kind MARK`.

    A mark stands before a turn's content (`c`) or reasoning (`r`). Where the content's mark comes
    out in a rendering is where the turn begins; where the reasoning's does, the template wrote
    the reasoning itself. It keeps whitespace behind it from being trimmed.

    Attributes:
        messages: The messages with marks.
        reasoning: Reasoning of each marked turn, by its number.
        mark: A character that occurs nowhere else.
    """

    messages: Sequence[Mapping[str, Any]]
    reasoning: Mapping[int, str]
    mark: str


def mark_turns(messages: Sequence[Mapping[str, Any]], mark: str) -> MarkedConversation:
    """Mark every assistant turn that brings reasoning along."""
    marked: list[Mapping[str, Any]] = []
    reasoning: dict[int, str] = {}
    for number, message in enumerate(messages):
        thought, content = message.get("reasoning_content"), message.get("content") or ""
        if (
            message.get("role") == "assistant"
            and isinstance(thought, str)
            and isinstance(content, str)
            and thought.strip()
        ):
            reasoning[number] = thought
            message = {
                **message,
                "content": f"{mark}{number}c{mark}{content}",
                "reasoning_content": f"{mark}{number}r{mark}{thought}",
            }
        marked.append(message)
    return MarkedConversation(marked, reasoning, mark)


def spell_tags(messages: Sequence[Mapping[str, Any]], spelled: str) -> Sequence[Mapping[str, Any]]:
    """The messages with a break character in every tag within their reasoning.

    Where tags are tokens the block ends at a token, so that a tag in the text of the reasoning
    was spelled in others; read back as a tag it would close the block.
    """
    return [
        {**message, "reasoning_content": _spell(message["reasoning_content"], spelled)}
        if isinstance(message.get("reasoning_content"), str)
        else message
        for message in messages
    ]


def insert_reasoning(
    plain: str, with_marks: str, conversation: MarkedConversation, style: ThinkStyle
) -> str | None:
    """`plain` with a think block at the start of every replayed turn that lacks one.

    Args:
        plain: The rendering of the conversation without marks.
        with_marks: The rendering of the marked conversation.
        conversation: That conversation.
        style: How to write a block.

    Returns:
        The rendering; what is added to `plain` is the missing blocks and nothing else. None where
        the marks changed the rendering in any other way than whitespace after a mark.
    """
    mark = conversation.mark
    pieces = re.split(f"{mark}([0-9]+)([cr]){mark}", with_marks)
    written = {int(n) for n, kind in zip(pieces[1::3], pieces[2::3], strict=True) if kind == "r"}
    result: list[str] = []
    position = 0
    for index in range(0, len(pieces), 3):
        text = pieces[index]
        # Without the mark, the template may have trimmed the whitespace that follows it here.
        blanks = _leading_blanks(text)
        found = text[blanks - _leading_blanks(plain[position : position + blanks]) :]
        if not plain.startswith(found, position):
            return None
        result.append(found)
        position += len(found)
        if index + 2 < len(pieces):
            number, kind = int(pieces[index + 1]), pieces[index + 2]
            if kind == "c" and number not in written:
                written.add(number)
                result.append(style.block(conversation.reasoning[number]))
    return "".join(result) if position == len(plain) else None


def _spell(text: str, spelled: str) -> str:
    for tag in (THINK_OPEN, THINK_CLOSE):
        text = text.replace(tag, tag[:1] + spelled + tag[1:])
    return text


def _leading_blanks(text: str) -> int:
    return len(text) - len(text.lstrip())
