"""Tokens spelled out, so that two ways to encode one text can be compared."""

from __future__ import annotations

from collections.abc import Sequence

from pantheon.engine.tokenizer.token_bytes import TokenBytes
from pantheon.engine.tokenizer.vocabulary import TokenType, Vocabulary

_MARK = b"\xff"
"""A byte that no text in UTF-8 has."""


def spelling(vocabulary: Vocabulary, token_bytes: TokenBytes) -> tuple[bytes, ...]:
    """For each token the bytes of its text; those of a special token are of no other's.

    Never empty. Two sequences of tokens with the same joined spelling have the same text and the
    same special tokens at the same places.
    """
    spelled = []
    for token, kind in enumerate(vocabulary.types):
        data = token_bytes.get(token)
        if not data or kind is TokenType.USER_DEFINED:
            spelled.append(_MARK + token.to_bytes(4, "little"))
        else:
            spelled.append(data.replace(_MARK, _MARK + b"byte"))
    return tuple(spelled)


class Speller:
    """Spells sequences of tokens, without what encoding adds to a text or drops from it.

    A SentencePiece vocabulary puts a space before a text, with which a sampled answer need not
    begin, and some special tokens take the whitespace behind them away.
    """

    def __init__(self, vocabulary: Vocabulary, token_bytes: TokenBytes) -> None:
        """Spell every token of a vocabulary."""
        self._spelling = spelling(vocabulary, token_bytes)
        self._special = frozenset(
            token
            for token, kind in enumerate(vocabulary.types)
            if kind not in (TokenType.NORMAL, TokenType.BYTE)
        )
        self._space_prefix = vocabulary.space_prefix
        self._strip_after = vocabulary.strip_after

    def __call__(self, tokens: Sequence[int]) -> list[bytes]:
        """The spelling of each token; leading tokens are spelled as they are in the whole."""
        spelled = [self._spelling[token] for token in tokens]
        if self._space_prefix or self._strip_after:
            self._drop_added(tokens, spelled)
        return spelled

    def _drop_added(self, tokens: Sequence[int], spelled: list[bytes]) -> None:
        begins, strips = True, False
        for place, token in enumerate(tokens):
            if token in self._special:
                begins, strips = True, token in self._strip_after
            elif begins:
                if strips:
                    spelled[place] = spelled[place].lstrip()
                elif self._space_prefix:
                    spelled[place] = spelled[place].removeprefix(b" ")
                begins = strips and not spelled[place]
