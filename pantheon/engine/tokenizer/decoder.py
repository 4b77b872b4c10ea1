"""Tokens back to text, one at a time, never half a character."""

import codecs

from pantheon.engine.tokenizer.token_bytes import TokenBytes


class IncrementalDecoder:
    """Decodes one sequence. What `push` returns is final: texts are appended, never revised.

    Only a valid beginning of a UTF-8 character is held back, three bytes at most; bytes that
    cannot become a character turn into U+FFFD at once.
    """

    __slots__ = ("_prefixed", "_special", "_token_bytes", "_utf8", "latest")

    def __init__(
        self, token_bytes: TokenBytes, *, special: bool = False, space_prefix: bool = False
    ) -> None:
        """A decoder at the start of a sequence.

        Args:
            token_bytes: The vocabulary's bytes.
            special: Write control tokens out as their text instead of leaving them out.
            space_prefix: Leave out a space at the very start, which the vocabulary puts there.
        """
        self._token_bytes = token_bytes
        self._special = special
        self._prefixed = space_prefix
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self.latest = b""
        """Bytes of the token pushed last, as far as they are part of the text."""

    def push(self, token: int) -> str:
        """Text that is final once `token` is known; often empty inside a character."""
        data = self._token_bytes.get(token, special=self._special)
        if self._prefixed and data:
            self._prefixed = False
            data = data.removeprefix(b" ")
        self.latest = data
        text = self._utf8.decode(data)
        held = self._utf8.getstate()[0]
        if len(held) == 2 and held[0] == 0xED and held[1] >= 0xA0:
            # Half of a surrogate: Python's decoder waits for the third byte, though no
            # character begins so.
            text += self.flush()
        return text

    @property
    def between_characters(self) -> bool:
        """Whether no part of a character is held back."""
        return not self._utf8.getstate()[0]

    def flush(self) -> str:
        """What is held back, as U+FFFD, at the end of the sequence."""
        text = self._utf8.decode(b"", final=True)
        self._utf8.reset()
        return text
