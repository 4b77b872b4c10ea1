"""The bytes that each token stands for."""

from pantheon.engine.tokenizer.errors import TokenizerError
from pantheon.engine.tokenizer.sentencepiece import SPACE
from pantheon.engine.tokenizer.vocabulary import SENTENCEPIECE, TokenType, Vocabulary


def _byte_alphabet() -> dict[str, int]:
    """Byte of each character in byte-level BPE's printable alphabet (GPT-2): printable Latin-1
    bytes stand for themselves, the others for the characters from U+0100 on, in order."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {
        chr(0x100 + index): byte for index, byte in enumerate(others)
    }


class TokenBytes:
    """Bytes of every token, by id. Special tokens are written out only on request."""

    __slots__ = ("_special", "_visible")

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Decode the vocabulary once.

        Raises:
            TokenizerError: a byte token is not written `<0xXX>`.
        """
        alphabet = _byte_alphabet()
        pieces = vocabulary.model == SENTENCEPIECE
        visible: list[bytes] = []
        special: dict[int, bytes] = {}
        for index, (text, kind) in enumerate(zip(vocabulary.tokens, vocabulary.types, strict=True)):
            if kind is TokenType.NORMAL:
                visible.append(
                    text.replace(SPACE, " ").encode() if pieces else _decode(text, alphabet)
                )
            elif kind is TokenType.USER_DEFINED:
                visible.append(text.encode())
            elif kind is TokenType.BYTE:
                visible.append(_byte_token(text, index))
            else:
                visible.append(b"")
                if kind is not TokenType.UNUSED:
                    special[index] = text.encode()
        self._visible = tuple(visible)
        self._special = special

    def get(self, token: int, *, special: bool = False) -> bytes:
        """Bytes of a token.

        Args:
            token: Token id; an id outside the vocabulary (models pad their output rows) has none.
            special: Write control and unknown tokens out as their text.
        """
        if not 0 <= token < len(self._visible):
            return b""
        if special and token in self._special:
            return self._special[token]
        return self._visible[token]


def _decode(text: str, alphabet: dict[str, int]) -> bytes:
    try:
        return bytes([alphabet[character] for character in text])
    except KeyError:
        # A token added with its plain text instead of its byte alphabet spelling.
        return text.encode()


def _byte_token(text: str, index: int) -> bytes:
    if len(text) == 6 and text.startswith("<0x") and text.endswith(">"):
        try:
            return bytes.fromhex(text[3:5])
        except ValueError:
            pass  # refused below, with the others
    raise TokenizerError(f"token {index} is a byte token and must be '<0xXX>', found {text!r}")
