"""Grammar or calls, and reasoning budget of one answer, each where it applies."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from pantheon.engine.answer import Answer
from pantheon.engine.constraint.budget import ReasoningBudget
from pantheon.engine.constraint.grammar import Grammar
from pantheon.engine.constraint.mask import allows
from pantheon.engine.constraint.rule import ContentRule, WholeObject
from pantheon.engine.reasoning import Phase
from pantheon.engine.token_mask import TokenMask

_FRAMING_BREAKS: Final = 2
"""Line breaks that may stand between a think block and the content, as templates write them."""


class Constraint:
    """What the next token of an answer may be.

    Reasoning is free until its budget is used up; then the block is closed by force. A grammar,
    or what holds an answer to calls, begins at the end of the block. Nothing raises here whatever
    the tokens are.
    """

    def __init__(
        self,
        answer: Answer,
        *,
        grammar: Grammar | None = None,
        calls: ContentRule | None = None,
        budget: ReasoningBudget | None = None,
    ) -> None:
        """Constrain an answer that has not begun; `accept` follows each of its `push`es.

        Args:
            answer: the answer.
            grammar: of the JSON object that the content must be, if it must.
            calls: what `ToolGrammars.start` returned; not beside a grammar.
            budget: of the reasoning.
        """
        if grammar is not None and calls is not None:
            raise ValueError("an answer is held to an object or to calls, not to both")
        self._answer = answer
        self._grammar = grammar
        self._rule = calls if grammar is None else WholeObject(grammar)
        self._budget = budget
        self._phase = answer.phase

    @classmethod
    def of(
        cls,
        answer: Answer,
        *,
        grammar: Grammar | None = None,
        calls: ContentRule | None = None,
        budget: ReasoningBudget | None = None,
    ) -> Constraint | None:
        """A constraint if there is anything to constrain by."""
        if grammar is None and calls is None and budget is None:
            return None
        return cls(answer, grammar=grammar, calls=calls, budget=budget)

    def mask(self) -> TokenMask | None:
        """Tokens that may come next, uint32 [ceil(vocabulary / 32)]; None for all.

        Not to be asked for once the answer is complete or dead.
        """
        rule = self._rule
        if self._phase is Phase.REASONING:
            forced = None if self._budget is None else self._budget.mask(self._answer)
            return rule.reasoning_mask if forced is None and rule is not None else forced
        if rule is None:
            return None
        if self._phase is Phase.START:
            return rule.start_mask
        if self._phase is Phase.AFTER:
            breaks = _FRAMING_BREAKS - self._answer.breaks_after_reasoning
            return rule.mask_after_block(breaks)
        return rule.mask

    def foresee(self, tokens: Sequence[int]) -> tuple[TokenMask | None, ...]:
        """The mask as it will likely be after each of the next tokens.

        It ends before a token that is refused. What holds is known when the token has come.
        """
        if self._rule is not None and self._phase is Phase.CONTENT:
            return tuple(self._rule.foresee(tokens))
        mask = self.mask()
        if mask is None:
            return (None,) * len(tokens)
        allowed = itertools.takewhile(lambda token: allows(mask, token), tokens)
        return (mask,) * sum(1 for _ in allowed)

    def accept(self, token_id: int) -> None:
        """Take a sampled token, after the answer took it."""
        before, self._phase = self._phase, self._answer.phase
        if self._rule is None or self._phase is Phase.REASONING:
            return
        if before in (Phase.START, Phase.CONTENT):
            self._rule.accept(token_id, self._answer.latest_content)
        elif self._phase is Phase.CONTENT:
            # The end of a think block, or its framing, may share a token with the content.
            self._rule.accept_text(self._answer.latest_content)

    @property
    def complete(self) -> bool:
        """Whether the object, or the call that must be, is closed: the answer ends here."""
        return self._rule is not None and self._rule.complete

    @property
    def dead(self) -> bool:
        """Whether that cannot be closed any more: the answer ends here."""
        return self._rule is not None and self._rule.dead

    @property
    def closed(self) -> bool | None:
        """Whether the answer is a whole object; None without a grammar of one."""
        if self._grammar is None:
            return None
        return self._grammar.complete and not self._answer.stopped

    @property
    def relaxed(self) -> bool:
        """Whether the grammar of an object enforces only a part of its schema."""
        return self._grammar is not None and self._grammar.relaxed

    @property
    def free_ahead(self) -> bool:
        """Whether every token may come after the next, whatever that one is."""
        if self._rule is not None and not self._rule.free_ahead:
            return False
        return self._budget is None or not self._budget.may_force(self._answer, after=1)
