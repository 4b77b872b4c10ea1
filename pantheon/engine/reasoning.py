"""Splitting an answer into reasoning and content.

Reference, responses of `POST /v1/chat/completions`, `reasoning_content`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pantheon.engine.stop_strings import overlap
from pantheon.engine.tokenizer import THINK_CLOSE, THINK_OPEN, ThinkStyle


@dataclass(frozen=True, slots=True)
class ReasoningStart:
    """How an answer of a think-style template begins.

    Attributes:
        style: how the template and its vocabulary write think blocks.
        open: True when the prompt ends inside an open block.
    """

    style: ThinkStyle
    open: bool


class Phase(Enum):
    """Where an answer is."""

    START = "start"
    """Nothing but whitespace so far: a think block may still open."""
    REASONING = "reasoning"
    """Inside the block."""
    AFTER = "after"
    """Behind the block, before the first character of the content."""
    CONTENT = "content"


@dataclass(frozen=True, slots=True)
class Split:
    """Text that is certain now."""

    reasoning: str = ""
    content: str = ""

    def __add__(self, other: Split) -> Split:
        return Split(self.reasoning + other.reasoning, self.content + other.content)


class ReasoningSplitter:
    """Takes an answer's text in any pieces and tells reasoning from content.

    There is one block, at the beginning: opened by the prompt, or by the model as the first thing
    but whitespace. It ends at the first closing tag; any other tag is text. Where both tags are
    tokens of the vocabulary they are taken by `take_tag`, and a tag spelled out in other tokens
    is text; else they are found in the text, and what may yet become one is held back. Line
    breaks at both ends of the reasoning and after the block belong to the template's framing and
    are left out, as templates leave them out when they read such a block.
    """

    def __init__(self, start: ReasoningStart | None) -> None:
        """Begin; without a start everything is content."""
        self._tags: dict[int, str] = {}
        if start is not None and start.style.open_id is not None:
            self._tags[start.style.open_id] = THINK_OPEN
        if start is not None and start.style.close_id is not None:
            self._tags[start.style.close_id] = THINK_CLOSE
        self._by_token = bool(self._tags)
        self._held = ""
        self._at_first = True
        self.taken = 0
        """Characters taken so far."""
        self.content_at = 0
        """Of those, how many came before the content, once the phase is CONTENT."""
        self.breaks_after = 0
        """Line breaks left out after the block."""
        self.phase = Phase.CONTENT
        if start is not None:
            self.phase = Phase.REASONING if start.open else Phase.START

    @property
    def begun_closing_tag(self) -> str:
        """The part of a closing tag that is held back, if tags are found in text."""
        if self.phase is not Phase.REASONING or self._by_token:
            return ""
        size = overlap(self._held, THINK_CLOSE)
        return THINK_CLOSE[:size]

    def tag_text(self, token_id: int) -> str | None:
        """The tag that a token spells, where tags are tokens."""
        return self._tags.get(token_id)

    def expects_tag(self, token_id: int) -> bool:
        """Whether a token would open or close the block here."""
        wanted = {Phase.START: THINK_OPEN, Phase.REASONING: THINK_CLOSE}.get(self.phase)
        return wanted is not None and self._tags.get(token_id) == wanted

    def take_tag(self) -> None:
        """Open or close the block: the expected tag's token came."""
        self._held = ""
        self.phase = Phase.REASONING if self.phase is Phase.START else Phase.AFTER

    def push(self, text: str) -> Split:
        """Take more text."""
        self.taken += len(text)
        rest = self._held + text
        self._held = ""
        split = Split()
        if self.phase is Phase.START:
            rest = self._take_start(rest)
        if self.phase is Phase.REASONING:
            reasoning, rest = self._take_reasoning(rest)
            split = Split(reasoning=reasoning)
        if self.phase is Phase.AFTER:
            visible = rest.lstrip("\n")
            self.breaks_after += len(rest) - len(visible)
            rest = visible
            if rest:
                self._begin_content(rest)
        return split + Split(content=rest) if self.phase is Phase.CONTENT else split

    def flush(self) -> Split:
        """The text ended: return what was held back."""
        held, self._held = self._held, ""
        if self.phase is Phase.START:
            self._begin_content(held)
        return Split(reasoning=held) if self.phase is Phase.REASONING else Split(content=held)

    def _take_start(self, text: str) -> str:
        """Look for an opening tag; returns what is left to take."""
        visible = text.lstrip()
        if self._by_token:
            undecided = not visible
        else:
            if visible.startswith(THINK_OPEN):
                self.phase = Phase.REASONING
                return visible[len(THINK_OPEN) :]
            undecided = THINK_OPEN.startswith(visible)
        if undecided:
            self._held = text
            return ""
        self._begin_content(text)
        return text

    def _take_reasoning(self, text: str) -> tuple[str, str]:
        """Reasoning that is certain, and what follows the block."""
        if self._at_first:
            text = text.lstrip("\n")
            self._at_first = not text
        keep = 0
        if not self._by_token:
            before, tag, after = text.partition(THINK_CLOSE)
            if tag:
                self.phase = Phase.AFTER
                return before.rstrip("\n"), after
            keep = overlap(text, THINK_CLOSE)
        certain = text[: len(text) - keep].rstrip("\n")
        self._held = text[len(certain) :]
        return certain, ""

    def _begin_content(self, text: str) -> None:
        """What was taken last, `text`, is the beginning of the content."""
        self.phase = Phase.CONTENT
        self.content_at = self.taken - len(text)
