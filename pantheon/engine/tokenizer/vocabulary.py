"""The vocabulary of a model, read from GGUF metadata and checked once.

Keys and token types: the GGUF specification, section on `tokenizer.ggml`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol, SupportsFloat, SupportsInt

from pantheon.engine.tokenizer.errors import TokenizerError

MAX_TOKENS = 1 << 20
MAX_MERGES = 1 << 21
MAX_TOKEN_CHARS = 1 << 12

BYTE_LEVEL, SENTENCEPIECE = "gpt2", "llama"
"""Kinds of tokenizers in `tokenizer.ggml.model`."""

_END_TEXTS = frozenset(
    {
        "</s>",
        "<EOT>",
        "<|call|>",
        "<|end_of_text|>",
        "<|end|>",
        "<|endoftext|>",
        "<|eom_id|>",
        "<|eot_id|>",
        "<|im_end|>",
        "<|return|>",
        "<end_of_turn>",
    }
)
"""Texts of control tokens that end a turn or a document in the families served."""


_KEEP_BLANKS = frozenset({"<unk>", "<s>", "<|endoftext|>"})
"""The special tokens of Phi-3 that take no whitespace with them."""


class TokenType(IntEnum):
    """Kinds of tokens in `tokenizer.ggml.token_type`."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


class MetadataReader(Protocol):
    """What this package needs of a GGUF file's metadata: typed getters that raise ValueError
    naming the key for a wrong type, or, but for the optional ones, a missing key."""

    def string(self, key: str) -> str: ...
    def strings(self, key: str) -> list[str]: ...
    def optional_string(self, key: str) -> str | None: ...
    def optional_strings(self, key: str) -> list[str] | None: ...
    def optional_uint(self, key: str) -> int | None: ...
    def optional_boolean(self, key: str) -> bool | None: ...
    def optional_integers(self, key: str) -> Collection[SupportsInt] | None: ...
    def optional_floats(self, key: str) -> Collection[SupportsFloat] | None: ...


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Tokens and rules of one model.

    Attributes:
        model: Kind of tokenizer, `tokenizer.ggml.model`: "gpt2" is byte-level BPE, "llama"
            SentencePiece's BPE with byte fallback.
        pre: Name of the pre-tokenizer of byte-level BPE, `tokenizer.ggml.pre`.
        tokens: Text of each token by id; byte-level BPE tokens in the printable byte alphabet,
            SentencePiece tokens with U+2581 for a space.
        types: Type of each token by id; a user-defined token with a known end text is a control
            token.
        merges: BPE merges, strongest first, as pairs of token texts.
        bos, eos, unknown, padding: Ids from metadata; None where the file names none.
        add_bos: Whether a prompt starts with `bos`. Where the file does not say, a SentencePiece
            vocabulary that has one wants it, a byte-level one does not.
        end_ids: Tokens that end generation: eos, eot, eom of the metadata and control tokens
            with a known end text.
        scores: Score of each token by id, the higher the sooner merged; SentencePiece only.
        space_prefix: Whether a space is put before a text, at its start and after each special
            token, that is no part of it; SentencePiece only.
        strip_after: Special tokens after which leading whitespace is dropped.
    """

    model: str
    pre: str
    tokens: tuple[str, ...]
    types: tuple[TokenType, ...]
    merges: tuple[tuple[str, str], ...]
    bos: int | None
    eos: int | None
    unknown: int | None
    padding: int | None
    add_bos: bool
    end_ids: frozenset[int]
    scores: tuple[float, ...] = ()
    space_prefix: bool = False
    strip_after: frozenset[int] = frozenset()

    @classmethod
    def from_metadata(cls, metadata: MetadataReader) -> "Vocabulary":
        """Read and check a vocabulary.

        Raises:
            TokenizerError: counts that do not fit together, an id outside the vocabulary, a
                damaged merge, a duplicate or overlong token, or too many of them.
            ValueError: from `metadata`, for a missing key or a wrong type.
        """
        model = metadata.string("tokenizer.ggml.model")
        pieces = model == SENTENCEPIECE
        tokens = _tokens(metadata)
        types = _types(metadata, tokens)
        ids = {
            name: _special_id(metadata, f"tokenizer.ggml.{name}_token_id", len(tokens))
            for name in ("bos", "eos", "eot", "eom", "unknown", "padding")
        }
        known_ends = (
            index
            for index, (text, kind) in enumerate(zip(tokens, types, strict=True))
            if kind is TokenType.CONTROL and text in _END_TEXTS
        )
        named_ends = (ids[name] for name in ("eos", "eot", "eom"))
        add_bos = metadata.optional_boolean("tokenizer.ggml.add_bos_token")
        if add_bos is None:
            add_bos = pieces and ids["bos"] is not None
        if add_bos and ids["bos"] is None:
            raise TokenizerError(
                "tokenizer.ggml.add_bos_token is true, but tokenizer.ggml.bos_token_id is missing"
            )
        return cls(
            model=model,
            pre=metadata.optional_string("tokenizer.ggml.pre") or "default",
            tokens=tokens,
            types=types,
            merges=_merges(metadata),
            bos=ids["bos"],
            eos=ids["eos"],
            unknown=ids["unknown"],
            padding=ids["padding"],
            add_bos=add_bos,
            end_ids=frozenset(known_ends) | {end for end in named_ends if end is not None},
            scores=_scores(metadata, len(tokens)) if pieces else (),
            space_prefix=pieces
            and metadata.optional_boolean("tokenizer.ggml.add_space_prefix") is not False,
            strip_after=_strip_after(metadata, tokens, types) if pieces else frozenset(),
        )

    def __len__(self) -> int:
        return len(self.tokens)

    def texts(self, *kinds: TokenType) -> dict[str, int]:
        """Text to id of the tokens of the given types."""
        return {
            text: index
            for index, (text, kind) in enumerate(zip(self.tokens, self.types, strict=True))
            if kind in kinds
        }


def _tokens(metadata: MetadataReader) -> tuple[str, ...]:
    key = "tokenizer.ggml.tokens"
    tokens = metadata.strings(key)
    if not 1 <= len(tokens) <= MAX_TOKENS:
        raise TokenizerError(f"{key} must hold 1 to {MAX_TOKENS} tokens, found {len(tokens)}")
    ids: dict[str, int] = {}
    for index, text in enumerate(tokens):
        if not 1 <= len(text) <= MAX_TOKEN_CHARS:
            raise TokenizerError(
                f"{key} must hold texts of 1 to {MAX_TOKEN_CHARS} characters; "
                f"token {index} has {len(text)}"
            )
        if ids.setdefault(text, index) != index:
            raise TokenizerError(
                f"{key} must hold each text once; tokens {ids[text]} and {index} are both {text!r}"
            )
    return tuple(tokens)


def _types(metadata: MetadataReader, tokens: Sequence[str]) -> tuple[TokenType, ...]:
    key = "tokenizer.ggml.token_type"
    count = len(tokens)
    found = metadata.optional_integers(key)
    if found is None:
        return (TokenType.NORMAL,) * count
    if len(found) != count:
        raise TokenizerError(f"{key} must have one entry per token, {count}; found {len(found)}")
    known = {int(kind): kind for kind in TokenType}
    numbers = [int(value) for value in found]
    for index, number in enumerate(numbers):
        if number not in known:
            raise TokenizerError(
                f"{key} must hold types 1 to {max(known)}; token {index} has type {number}"
            )
    ends = {
        index
        for index, (text, number) in enumerate(zip(tokens, numbers, strict=True))
        if number == TokenType.USER_DEFINED and text in _END_TEXTS
    }
    # User-defined tokens are found in contents too, where none may end a turn.
    return tuple(
        TokenType.CONTROL if index in ends else known[number]
        for index, number in enumerate(numbers)
    )


def _scores(metadata: MetadataReader, count: int) -> tuple[float, ...]:
    key = "tokenizer.ggml.scores"
    found = metadata.optional_floats(key)
    if found is None or len(found) != count:
        raise TokenizerError(
            f"{key} must have one entry per token, {count}; "
            f"found {'no such key' if found is None else len(found)}"
        )
    return tuple(float(score) for score in found)


def _strip_after(
    metadata: MetadataReader, tokens: Sequence[str], types: Sequence[TokenType]
) -> frozenset[int]:
    """Phi-3's added tokens are declared so in its own tokenizer; a GGUF file has no key for it."""
    if metadata.optional_string("general.architecture") != "phi3":
        return frozenset()
    special = (TokenType.CONTROL, TokenType.UNKNOWN, TokenType.USER_DEFINED)
    return frozenset(
        index
        for index, (text, kind) in enumerate(zip(tokens, types, strict=True))
        if kind in special and text not in _KEEP_BLANKS
    )


def _merges(metadata: MetadataReader) -> tuple[tuple[str, str], ...]:
    key = "tokenizer.ggml.merges"
    lines = metadata.optional_strings(key) or []
    if len(lines) > MAX_MERGES:
        raise TokenizerError(f"{key} must hold at most {MAX_MERGES} merges, found {len(lines)}")
    merges: list[tuple[str, str]] = []
    for index, line in enumerate(lines):
        left, space, right = line.partition(" ")
        if not (left and space and right) or " " in right:
            raise TokenizerError(
                f"{key} must hold pairs of tokens separated by one space; "
                f"entry {index} is {line[:80]!r}"
            )
        merges.append((left, right))
    return tuple(merges)


def _special_id(metadata: MetadataReader, key: str, count: int) -> int | None:
    found = metadata.optional_uint(key)
    if found is not None and found >= count:
        raise TokenizerError(f"{key} must be below the vocabulary size {count}, found {found}")
    return found
