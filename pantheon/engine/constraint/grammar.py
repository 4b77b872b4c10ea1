"""One answer's walk through a grammar."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from llguidance import LLMatcher

from pantheon.engine.constraint.mask import allows, mask_from_bytes, mask_of
from pantheon.engine.token_mask import TokenMask
from pantheon.engine.tokenizer import Tokenizer

_log = logging.getLogger(__name__)


class Grammar:
    """Says after each token which may follow, until nothing more may follow.

    Nothing raises here whatever the tokens are: an answer that left the grammar, or that no token
    can continue, is `dead`.
    """

    def __init__(self, matcher: LLMatcher, tokenizer: Tokenizer, *, relaxed: bool = False) -> None:
        """Start before the first token.

        Args:
            matcher: in its initial state; this object alone uses it.
            tokenizer: the one whose tokens it matches.
            relaxed: whether the grammar lets through what its schema does not.
        """
        self.relaxed = relaxed
        self._matcher = matcher
        self._tokenizer = tokenizer
        self._vocabulary = len(tokenizer.vocabulary)
        self._end = min(tokenizer.vocabulary.end_ids, default=self._vocabulary)
        # The same text is asked for after each token of a string.
        self._latest: tuple[str, list[int]] = ("", [self._end])
        self.complete = False
        """Whether the grammar is at its end, so that nothing may follow."""
        self.dead = False
        """Whether no token can bring the grammar to its end."""
        self._look_ahead()

    @property
    def mask(self) -> TokenMask:
        """Tokens that may come next; none when complete or dead. Not to be written to."""
        return self._mask

    def copy(self) -> Grammar:
        """Another walk from the same place; neither complete nor dead."""
        return Grammar(self._matcher.deep_copy(), self._tokenizer, relaxed=self.relaxed)

    def accept(self, token_id: int) -> None:
        """Take the next token."""
        self._accept([token_id])

    def foresee(self, tokens: Sequence[int]) -> list[TokenMask]:
        """The masks after each of the tokens, were they accepted; no state changes.

        They end before a token that is refused, or after which nothing may follow.
        """
        masks: list[TokenMask] = []
        walk, mask = self._matcher.deep_copy(), self._mask
        for token in tokens:
            if not allows(mask, token) or not walk.consume_token(token) or walk.is_stopped():
                break
            mask = mask_from_bytes(walk.compute_bitmask(), self._vocabulary)
            if walk.is_error():
                break
            masks.append(mask)
        return masks

    def completed_by(self, text: str) -> bool:
        """Whether a text brings the grammar to its end; no state changes."""
        if self.dead or self.complete:
            return self.complete and not text
        if text != self._latest[0]:
            self._latest = (text, [*self._encoded(text), self._end])
        tokens = self._latest[1]
        return self._matcher.validate_tokens(tokens) == len(tokens)

    def accept_text(self, text: str) -> None:
        """Take text that is only part of a token, in tokens of its own."""
        self._accept(self._encoded(text))

    def line_breaks(self, most: int) -> TokenMask:
        """Tokens of nothing but 1 to `most` line breaks, which may stand before the text."""
        texts = ("\n" * count for count in range(1, most + 1))
        encoded = map(self._encoded, texts)
        return mask_of((tokens[0] for tokens in encoded if len(tokens) == 1), self._vocabulary)

    def _encoded(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, special=False, continued=True)

    def _accept(self, tokens: list[int]) -> None:
        for token in tokens:
            if self.dead:
                return
            if self.complete:
                self._die("text follows where nothing may")
            elif not 0 <= token < self._vocabulary or not self._matcher.consume_token(token):
                self._die(self._matcher.get_error() or f"token {token} is not of the vocabulary")
            else:
                self.complete = self._matcher.is_stopped()
        self._look_ahead()

    def _look_ahead(self) -> None:
        """Find the tokens that may come next."""
        if self.complete or self.dead:
            self._mask = mask_of((), self._vocabulary)
            return
        self._mask = mask_from_bytes(self._matcher.compute_bitmask(), self._vocabulary)
        # In its error state the matcher allows the end tokens.
        if self._matcher.is_error():
            self._die(self._matcher.get_error())
        elif not self._mask.any():
            self._die("no token of the vocabulary can follow")

    def _die(self, reason: str) -> None:
        self.dead = True
        self.complete = False
        self._mask = mask_of((), self._vocabulary)
        _log.warning("an answer left its grammar: %.200s", reason.partition("\n")[0])
