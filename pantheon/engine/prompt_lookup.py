"""Guessing what a model writes next from what it has read and written before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

_LONGEST_MATCH: Final = 32
"""Tokens at the end that are compared at most."""


class PromptLookup:
    """N-gram lookup in one conversation ("Prompt Lookup Decoding", Saxena, 2023).

    Code that is edited, arguments that were named and results that are quoted come again token
    for token. What followed the longest earlier match of the last tokens is the guess.
    """

    def __init__(self, tokens: Sequence[int]) -> None:
        """Begin with a prompt."""
        self._size = len(tokens)
        self._tokens = np.empty(max(2 * self._size, 1024), np.int32)
        self._tokens[: self._size] = tokens

    def push(self, token: int) -> None:
        """Take the next token of the conversation."""
        if self._size == len(self._tokens):
            self._tokens = np.concatenate([self._tokens, np.empty_like(self._tokens)])
        self._tokens[self._size] = token
        self._size += 1

    def guess(self, most: int, *, least_match: int) -> tuple[int, ...]:
        """Up to `most` tokens that may follow; none where the end matches nothing before it.

        A match may overlap the end: what repeats is guessed to go on repeating.

        Args:
            least_match: tokens that must match, at least one.
        """
        tokens, size = self._tokens[: self._size], self._size
        ends = np.flatnonzero(tokens[:-1] == tokens[-1])
        matched = 1
        while matched < _LONGEST_MATCH and ends.size:
            longer = ends[ends >= matched]
            longer = longer[tokens[longer - matched] == tokens[size - 1 - matched]]
            if not longer.size:
                break
            ends, matched = longer, matched + 1
        if most <= 0 or not ends.size or matched < least_match:
            return ()
        following = int(ends[-1]) + 1
        period = size - following
        return tuple(int(tokens[following + index % period]) for index in range(most))
