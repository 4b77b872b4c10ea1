"""Vocabularies made of a test's own pieces of text."""

from __future__ import annotations

from collections.abc import Iterable

from pantheon.engine.tokenizer import Tokenizer, TokenType, Vocabulary
from tests.engine.tokenizer.vocabularies import BYTE_ALPHABET

END = 0
"""The end token of these vocabularies, a control token."""

_CHARACTER = dict(
    zip(
        (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)),
        BYTE_ALPHABET,
        strict=False,
    )
)


def _byte_characters() -> dict[int, str]:
    """Character of each byte in byte-level BPE's alphabet."""
    others = iter(BYTE_ALPHABET[len(_CHARACTER) :])
    return {byte: _CHARACTER.get(byte) or next(others) for byte in range(256)}


class Pieces:
    """One token for each different piece, after the end token; the bytes come last."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        single = [bytes([byte]) for byte in range(256)]
        self.pieces = list(dict.fromkeys([*(piece for piece in pieces if piece), *single]))
        self._ids = {piece: index + 1 for index, piece in enumerate(self.pieces)}

    def id(self, piece: bytes) -> int:
        """Token of a piece."""
        return self._ids[piece]


def pieces_tokenizer(pieces: Pieces, *, end_tokens: frozenset[int] = frozenset({END})) -> Tokenizer:
    """A tokenizer of byte-level tokens without merges."""
    characters = _byte_characters()
    texts = ["".join(characters[byte] for byte in piece) for piece in pieces.pieces]
    return Tokenizer(
        Vocabulary(
            model="gpt2",
            pre="gpt-2",
            tokens=("<end>", *texts),
            types=(TokenType.CONTROL,) + (TokenType.NORMAL,) * len(texts),
            merges=(),
            bos=None,
            eos=END if END in end_tokens else None,
            unknown=None,
            padding=None,
            add_bos=False,
            end_ids=end_tokens,
        )
    )
