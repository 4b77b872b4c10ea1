"""An answer that must be a call (reference, Tool calling: `"required"` and a named function)."""

from __future__ import annotations

from collections.abc import Sequence

from pantheon.engine.answer import Answer
from pantheon.engine.answer_calls import AnswerCalls
from pantheon.engine.constraint.grammar import Grammar
from pantheon.engine.constraint.mask import full_mask, mask_of
from pantheon.engine.token_mask import TokenMask
from pantheon.engine.tokenizer import ThinkStyle, Tokenizer


class CompelledCall:
    """The content is one call.

    Without a grammar the model writes what it likes, but cannot end the answer before a call is
    there or could be closed. With one it may end inside the call where closing it gives a call that
    the grammar takes.
    """

    def __init__(
        self,
        grammar: Grammar | None,
        answer: Answer,
        calls: AnswerCalls,
        tokenizer: Tokenizer,
        *,
        end_tokens: frozenset[int],
        think: ThinkStyle | None,
    ) -> None:
        """Begin.

        Args:
            grammar: at its beginning; None where no grammar models the dialect.
            answer: the answer.
            calls: those in its content.
            tokenizer: the model's.
            end_tokens: tokens that end the answer.
            think: how the model's template writes think blocks, or None.
        """
        self._grammar = grammar
        self._start = None if grammar is None else grammar.copy()
        self._answer = answer
        self._calls = calls
        calls.completes = self._completes
        self._end_tokens = end_tokens
        size = len(tokenizer.vocabulary)
        tags = {think.open_id, think.close_id} if think is not None else set()
        self._ends = mask_of((token for token in end_tokens if token < size), size)
        self._others = full_mask(size) & ~self._ends
        # A tag that is expected is one even if its token ends answers elsewhere.
        expected = mask_of((tag for tag in tags if tag is not None), size)
        self._in_reasoning = self._others | expected
        opener = () if think is None or think.open_id is None else (think.open_id,)
        self._think = mask_of(opener, size)

    @property
    def mask(self) -> TokenMask | None:
        if self._grammar is None:
            return None if self._may_end else self._others
        return self._with_ends(self._grammar.mask, may_end=self._may_end)

    @property
    def _may_end(self) -> bool:
        # A character that breaks off would be text that the closing text does not follow.
        if not self._answer.between_characters:
            return False
        closing = self._calls.closing_text
        if closing is None:
            return False
        if not closing:
            # Templates leave it out: the next prompt would not continue what is cached.
            return not self._calls.ends_in_whitespace
        return self._grammar is None or self._grammar.completed_by(closing)

    def _completes(self, written: str, closing: str) -> bool:
        if self._grammar is None or self._start is None:
            return True
        if self._answer.stopped:
            # The text ends before what the grammar took.
            return self._start.completed_by(written + closing)
        return self._grammar.completed_by(closing)

    def _with_ends(self, mask: TokenMask, *, may_end: bool) -> TokenMask:
        mask = mask & self._others
        return mask | self._ends if may_end else mask

    @property
    def start_mask(self) -> TokenMask | None:
        mask = self.mask
        return None if mask is None else mask | self._think

    @property
    def reasoning_mask(self) -> TokenMask:
        return self._in_reasoning

    @property
    def free_ahead(self) -> bool:
        return False

    @property
    def complete(self) -> bool:
        return self._grammar is not None and self._grammar.complete

    @property
    def dead(self) -> bool:
        return self._grammar is not None and self._grammar.dead

    def mask_after_block(self, breaks: int) -> TokenMask | None:
        mask = self.mask
        if mask is None or self._grammar is None:
            return mask
        return mask | self._grammar.line_breaks(breaks)

    def foresee(self, tokens: Sequence[int]) -> list[TokenMask | None]:
        """As if the answer might end, or not, where it may now, or not."""
        if self._grammar is None:
            return [self.mask] * len(tokens)
        may_end = self._may_end
        masks = self._grammar.foresee(tokens)
        return [self._with_ends(mask, may_end=may_end) for mask in masks]

    def accept(self, token_id: int, text: str) -> None:
        if self._grammar is not None and token_id not in self._end_tokens:
            self._grammar.accept(token_id)

    def accept_text(self, text: str) -> None:
        if self._grammar is not None:
            self._grammar.accept_text(text)
