"""Closing a think block by force (reference, request body, `reasoning_budget`)."""

from __future__ import annotations

from typing import Final

from pantheon.engine.answer import Answer
from pantheon.engine.constraint.mask import mask_of
from pantheon.engine.token_mask import TokenMask
from pantheon.engine.tokenizer import THINK_CLOSE, ThinkStyle, Tokenizer

GRACE_TOKENS: Final = 4
"""Tokens by which the budget is exceeded at most to end a character: it has at most four bytes."""


class ReasoningBudget:
    """Which token must follow, once a think block has used up its tokens."""

    def __init__(self, style: ThinkStyle, tokenizer: Tokenizer, tokens: int) -> None:
        """Allow `tokens` tokens of an open block, at least one."""
        if tokens < 1:
            raise ValueError(f"a reasoning budget must be at least 1 token, found {tokens}")
        self._close_id = style.close_id
        self._tokenizer = tokenizer
        self._tokens = tokens

    def mask(self, answer: Answer) -> TokenMask | None:
        """The one token that must come next; None when any may.

        The tag is not forced into a character, and one that the model has begun is completed.
        """
        if not self.may_force(answer, after=0):
            return None
        over = answer.reasoning_tokens - self._tokens
        if not answer.between_characters and over < GRACE_TOKENS:
            return None
        forced = self._close_id
        if forced is None:
            missing = THINK_CLOSE.removeprefix(answer.begun_closing_tag)
            # As text: a control token would leave no tag in the text, where it is looked for.
            forced = self._tokenizer.encode(missing, special=False, continued=True)[0]
        return mask_of([forced], len(self._tokenizer.vocabulary))

    def may_force(self, answer: Answer, *, after: int) -> bool:
        """Whether the budget may be used up once `after` more tokens came."""
        return answer.in_reasoning and answer.reasoning_tokens + after >= self._tokens
