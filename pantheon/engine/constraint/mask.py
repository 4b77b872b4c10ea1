"""Making token masks of ceil(vocabulary / 32) words; bits beyond the vocabulary are 0."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from pantheon.engine.token_mask import TokenMask

_WORD_BITS: Final = 32


def mask_words(vocabulary: int) -> int:
    """Words of a mask over `vocabulary` tokens."""
    return -(-vocabulary // _WORD_BITS)


def mask_of(tokens: Iterable[int], vocabulary: int) -> TokenMask:
    """A mask that allows the given tokens, all of them below `vocabulary`."""
    words = np.zeros(mask_words(vocabulary), np.uint32)
    for token in tokens:
        words[token // _WORD_BITS] |= np.uint32(1 << token % _WORD_BITS)
    return words


def allows(mask: TokenMask, token: int) -> bool:
    """Whether a mask allows a token; it allows none that lies past it."""
    word = token // _WORD_BITS
    return 0 <= word < len(mask) and bool(int(mask[word]) >> token % _WORD_BITS & 1)


def full_mask(vocabulary: int) -> TokenMask:
    """A mask that allows every token."""
    return mask_from_bytes(b"\xff" * (4 * mask_words(vocabulary)), vocabulary)


def mask_from_bytes(data: bytes, vocabulary: int) -> TokenMask:
    """A mask from little-endian bytes of at least `vocabulary` bits."""
    words = np.frombuffer(data, "<u4", mask_words(vocabulary)).astype(np.uint32)
    beyond = words.size * _WORD_BITS - vocabulary
    if beyond:
        words[-1] &= np.uint32((1 << (_WORD_BITS - beyond)) - 1)
    return words
