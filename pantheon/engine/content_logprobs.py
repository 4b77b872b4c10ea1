"""Log-probabilities of an answer's tokens, kept until their text is sent.

Reference, request body, `logprobs` and `top_logprobs`: they ride the chunk that carries the token.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from pantheon.engine.events import LOWEST_LOGPROB, TokenAlternative, TokenLogprob
from pantheon.engine.sampled_token import SampledToken
from pantheon.engine.tokenizer import TokenBytes


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A token whose characters are `start` to `end` of the answer; none where both are equal."""

    entry: TokenLogprob
    start: int
    end: int


class ContentLogprobs:
    """Entries in the order of their tokens.

    An entry is sent with the first of its token's characters, so it is sent exactly if one of
    them is; the entry of a token without characters follows the character before it. A token that
    holds part of a character counts as having that character.
    """

    def __init__(self, token_bytes: TokenBytes, top: int) -> None:
        """Report up to `top` alternatives for each token."""
        self._token_bytes = token_bytes
        self._top = top
        self._waiting: deque[_Waiting] = deque()

    def add(self, token: SampledToken, data: bytes, start: int, end: int) -> None:
        """Take a token of the given bytes and characters."""
        text = data.decode("utf-8", "replace")
        alternatives = tuple(
            TokenAlternative(text, data, _finite(logprob))
            if token_id == token.id
            else self._alternative(token_id, logprob)
            for token_id, logprob in token.alternatives[: self._top]
        )
        entry = TokenLogprob(text, data, _finite(token.logprob), alternatives)
        self._waiting.append(_Waiting(entry, start, end))

    def take(self, sent: int) -> tuple[TokenLogprob, ...]:
        """Entries that go with the answer's first `sent` characters and were not taken yet."""
        taken = []
        while self._waiting:
            first = self._waiting[0]
            if first.start > sent or (first.start == sent and first.end > first.start):
                break
            taken.append(self._waiting.popleft().entry)
        return tuple(taken)

    def drop(self, end: int) -> None:
        """The first `end` characters are not content: forget them, and tokens of nothing else."""
        self._waiting = deque(
            _Waiting(waiting.entry, max(waiting.start, end), waiting.end)
            for waiting in self._waiting
            if waiting.end > end
        )

    def _alternative(self, token_id: int, logprob: float) -> TokenAlternative:
        # Written out: an end token is a likely alternative, and a nameless one tells nothing.
        data = self._token_bytes.get(token_id, special=True)
        return TokenAlternative(data.decode("utf-8", "replace"), data, _finite(logprob))


def _finite(logprob: float | None) -> float:
    """A logarithm of a probability that JSON can write."""
    if logprob is None or math.isnan(logprob):
        return LOWEST_LOGPROB
    return min(max(logprob, LOWEST_LOGPROB), 0.0)
