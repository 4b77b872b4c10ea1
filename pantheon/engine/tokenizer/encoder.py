"""Text to token ids."""

from collections.abc import Iterable

from pantheon.engine.tokenizer.bpe import build_bpe
from pantheon.engine.tokenizer.decoder import IncrementalDecoder
from pantheon.engine.tokenizer.errors import TokenizerError
from pantheon.engine.tokenizer.sentencepiece import build_sentencepiece, place_spaces
from pantheon.engine.tokenizer.special_tokens import SpecialTexts
from pantheon.engine.tokenizer.token_bytes import TokenBytes
from pantheon.engine.tokenizer.vocabulary import (
    BYTE_LEVEL,
    SENTENCEPIECE,
    TokenType,
    Vocabulary,
)

_BUILDERS = {BYTE_LEVEL: build_bpe, SENTENCEPIECE: build_sentencepiece}


class Tokenizer:
    """Encoder and decoder of one vocabulary. Immutable, and safe to use from several threads.

    Control tokens are matched whole in text that is trusted scaffolding (`special=True`), never
    in other text. User-defined tokens are matched whole in both, as their models are trained.
    A control token whose text is a single character is never matched: it could not be told from
    that character.

    A SentencePiece vocabulary may put a space before a text; decoding takes it away again, once
    at the start of a sequence.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Build the tokenizer.

        Raises:
            TokenizerError: the kind of tokenizer or the pre-tokenizer is not supported, or the
                vocabulary is damaged.
        """
        build = _BUILDERS.get(vocabulary.model)
        if build is None:
            raise TokenizerError(
                f"tokenizer.ggml.model is {vocabulary.model!r}; "
                f"supported kinds are {', '.join(_BUILDERS)}"
            )
        self.vocabulary = vocabulary
        self.token_bytes = TokenBytes(vocabulary)
        self._library = build(vocabulary)
        self._strip_after = frozenset(vocabulary.tokens[token] for token in vocabulary.strip_after)
        control = vocabulary.texts(TokenType.CONTROL, TokenType.UNKNOWN)
        self.control_texts: tuple[str, ...] = tuple(text for text in control if len(text) > 1)
        user_defined = vocabulary.texts(TokenType.USER_DEFINED)
        self._ids = control | user_defined
        self._user_defined = SpecialTexts(user_defined)
        self._all_special = SpecialTexts([*self.control_texts, *user_defined])

    def encode(self, text: str, *, special: bool, continued: bool = False) -> list[int]:
        """Ids of a text, without BOS or EOS.

        Args:
            text: Any text without lone surrogates.
            special: Whether control tokens written out in the text become those tokens.
            continued: Whether it continues another text: no space is put before it.

        Raises:
            TokenizerError: the text holds a lone surrogate.
        """
        texts = self._all_special if special else self._user_defined
        return self._encode_pieces(list(texts.split(text)), continued=continued)

    def encode_prompt(self, text: str, breaks: str, spelled: str | None = None) -> list[int]:
        """Ids of a rendered prompt in which breaks keep contents from forming control tokens.

        Args:
            text: Scaffolding and contents; scaffolding's control tokens become those tokens.
            breaks: The break character, which is taken out after control tokens are matched.
            spelled: Another one, taken out after user-defined tokens are matched as well: a text
                that holds it is spelled in ordinary tokens.

        Raises:
            TokenizerError: the text holds a lone surrogate.
        """
        pieces: list[tuple[str, bool]] = []
        for piece, matched in self._all_special.split(text):
            if matched:
                pieces.append((piece, True))
            else:
                for part, found in self._user_defined.split(piece.replace(breaks, "")):
                    pieces.append(
                        (part if found or not spelled else part.replace(spelled, ""), found)
                    )
        return self._encode_pieces(pieces)

    def decoder(self, *, special: bool = False) -> IncrementalDecoder:
        """A decoder for one sequence; `special` writes control tokens out."""
        return IncrementalDecoder(
            self.token_bytes, special=special, space_prefix=self.vocabulary.space_prefix
        )

    def decode(self, tokens: Iterable[int], *, special: bool = False) -> str:
        """Text of a whole sequence."""
        decoder = self.decoder(special=special)
        return "".join([decoder.push(token) for token in tokens]) + decoder.flush()

    def _encode_pieces(
        self, pieces: list[tuple[str, bool]], *, continued: bool = False
    ) -> list[int]:
        if self.vocabulary.model == SENTENCEPIECE:
            pieces = place_spaces(
                pieces,
                prefix=self.vocabulary.space_prefix,
                strip_after=self._strip_after,
                continued=continued,
            )
        plain = [piece for piece, matched in pieces if not matched]
        for piece in plain:
            try:
                piece.encode()
            except UnicodeEncodeError as error:
                raise TokenizerError(
                    f"text must not hold lone surrogates, found {piece[error.start]!r}"
                ) from error
        encodings = iter(self._library.encode_batch_fast(plain, add_special_tokens=False))
        ids: list[int] = []
        for text, matched in pieces:
            if matched:
                ids.append(self._ids[text])
            else:
                ids.extend(next(encodings).ids)
        return ids
