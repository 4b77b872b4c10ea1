"""Calls that a free answer begins (reference, Tool calling: `"auto"` under a grammar)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pantheon.engine.answer import Answer
from pantheon.engine.constraint.grammar import Grammar
from pantheon.engine.constraint.openings import Openings
from pantheon.engine.token_mask import TokenMask


class BegunCalls:
    """The content is free until a call begins, then held to the grammar until that is closed.

    What the grammar does not take is left to the parser: a free answer never ends for it.
    """

    complete = False
    dead = False

    def __init__(self, start: Callable[[], Grammar], openings: Openings, answer: Answer) -> None:
        """Begin.

        Args:
            start: makes a grammar of one call.
            openings: finds where calls begin in the answer's content.
            answer: the answer.
        """
        self._start = start
        self._openings = openings
        self._answer = answer
        self._grammar: Grammar | None = None

    @property
    def mask(self) -> TokenMask | None:
        return None if self._grammar is None else self._grammar.mask

    @property
    def start_mask(self) -> TokenMask | None:
        return self.mask

    @property
    def reasoning_mask(self) -> None:
        return None

    @property
    def free_ahead(self) -> bool:
        return self._grammar is None and not self._openings.begun

    def mask_after_block(self, breaks: int) -> TokenMask | None:
        return self.mask

    def foresee(self, tokens: Sequence[int]) -> list[TokenMask | None]:
        """As if no call began."""
        if self._grammar is None:
            return [None] * len(tokens)
        return list(self._grammar.foresee(tokens))

    def accept(self, token_id: int, text: str) -> None:
        if self._grammar is None:
            self.accept_text(text)
        else:
            self._grammar.accept(token_id)
            self._leave_if_done(self._grammar)

    def accept_text(self, text: str) -> None:
        opening = self._openings.push(text) if text else None
        # The rest of a character that has begun could not be told from one of its own.
        if opening is None or not self._answer.between_characters:
            return
        self._grammar = self._start()
        self._grammar.accept_text(opening)
        self._leave_if_done(self._grammar)

    def _leave_if_done(self, grammar: Grammar) -> None:
        if grammar.complete or grammar.dead:
            self._grammar = None
            self._openings.restart()
