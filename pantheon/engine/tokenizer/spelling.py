"""Tokens spelled out, so that two ways to encode one text can be compared."""

from __future__ import annotations

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
    for token in range(len(vocabulary.tokens)):
        data = token_bytes.get(token)
        if not data or vocabulary.types[token] is TokenType.USER_DEFINED:
            spelled.append(_MARK + token.to_bytes(4, "little"))
        else:
            spelled.append(data.replace(_MARK, _MARK + b"byte"))
    return tuple(spelled)
