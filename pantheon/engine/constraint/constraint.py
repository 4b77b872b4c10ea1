"""Grammar and reasoning budget of one answer, each where it applies."""

from __future__ import annotations

from typing import Final

from pantheon.engine.answer import Answer
from pantheon.engine.constraint.budget import ReasoningBudget
from pantheon.engine.constraint.grammar import JsonGrammar
from pantheon.engine.reasoning import Phase
from pantheon.engine.token_mask import TokenMask

_FRAMING_BREAKS: Final = 2
"""Line breaks that may stand between a think block and the object, as templates write them."""


class Constraint:
    """What the next token of an answer may be.

    Reasoning is free until its budget is used up; then the block is closed by force. A grammar
    holds from the end of the block on. Nothing raises here whatever the tokens are.
    """

    def __init__(
        self, answer: Answer, *, grammar: JsonGrammar | None, budget: ReasoningBudget | None
    ) -> None:
        """Constrain an answer that has not begun; `accept` follows each of its `push`es."""
        self._answer = answer
        self._grammar = grammar
        self._budget = budget
        self._phase = answer.phase

    @classmethod
    def of(
        cls, answer: Answer, *, grammar: JsonGrammar | None, budget: ReasoningBudget | None
    ) -> Constraint | None:
        """A constraint if there is anything to constrain by."""
        if grammar is None and budget is None:
            return None
        return cls(answer, grammar=grammar, budget=budget)

    def mask(self) -> TokenMask | None:
        """Tokens that may come next, uint32 [ceil(vocabulary / 32)]; None for all.

        Not to be asked for once the answer is complete or dead.
        """
        if self._phase is Phase.REASONING:
            return None if self._budget is None else self._budget.mask(self._answer)
        if self._grammar is None:
            return None
        if self._phase is Phase.AFTER:
            breaks = _FRAMING_BREAKS - self._answer.breaks_after_reasoning
            return self._grammar.mask | self._grammar.line_breaks(breaks)
        return self._grammar.mask

    def accept(self, token_id: int) -> None:
        """Take a sampled token, after the answer took it."""
        before, self._phase = self._phase, self._answer.phase
        if self._grammar is None or self._phase is Phase.REASONING:
            return
        if before in (Phase.START, Phase.CONTENT):
            self._grammar.accept(token_id)
        elif self._phase is Phase.CONTENT:
            # The end of a think block, or its framing, may share a token with the object.
            self._grammar.accept_text(self._answer.latest_content)

    @property
    def complete(self) -> bool:
        """Whether the object is closed: the answer ends here."""
        return self._grammar is not None and self._grammar.complete

    @property
    def dead(self) -> bool:
        """Whether the object cannot be closed any more: the answer ends here."""
        return self._grammar is not None and self._grammar.dead

    @property
    def closed(self) -> bool | None:
        """Whether the answer is a whole object; None without a grammar."""
        if self._grammar is None:
            return None
        return self._grammar.complete and not self._answer.stopped

    @property
    def relaxed(self) -> bool:
        """Whether the grammar enforces only a part of its schema."""
        return self._grammar is not None and self._grammar.relaxed

    @property
    def free_ahead(self) -> bool:
        """Whether every token may come after the next, whatever that one is."""
        if self._grammar is not None:
            return False
        return self._budget is None or not self._budget.may_force(self._answer, after=1)
