"""Vocabularies for the tests: those of the golden files, and small made-up ones."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from pantheon.engine.gguf import GGUFFile, Metadata
from pantheon.engine.tokenizer import Tokenizer, TokenType, Vocabulary
from tests.golden import golden_file

FILES = {
    "gpt-2": "tokenizers/ggml-vocab-gpt-2.gguf",
    "llama-bpe": "tokenizers/ggml-vocab-llama-bpe.gguf",
    "llama-spm": "tokenizers/ggml-vocab-llama-spm.gguf",
    "phi-3": "tokenizers/ggml-vocab-phi-3.gguf",
    "qwen2": "tokenizers/ggml-vocab-qwen2.gguf",
    "qwen35": "tokenizers/ggml-vocab-qwen35.gguf",
    "smollm": "tokenizers/ggml-vocab-smollm.gguf",
    "tiny-llama-minicpm5": "models/llama-minicpm5-f32.gguf",
    "tiny-llama-mistral": "models/llama-mistral-f32.gguf",
    "tiny-llama3-rope": "models/llama3-rope-f32.gguf",
    "tiny-phi3": "models/phi3-f32.gguf",
    "tiny-qwen35": "models/qwen35-f32.gguf",
}
"""GGUF file of each vocabulary of nasty.json."""


def golden_metadata(name: str) -> Metadata:
    """Metadata of a golden vocabulary's file."""
    return GGUFFile(golden_file(FILES[name])).metadata


@cache
def golden_tokenizer(name: str) -> Tokenizer:
    """Tokenizer of a golden vocabulary."""
    return Tokenizer(Vocabulary.from_metadata(golden_metadata(name)))


_PRINTABLE = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
BYTE_ALPHABET = tuple(map(chr, (*_PRINTABLE, *range(0x100, 0x144))))
"""The 256 characters of byte-level BPE: printable Latin-1, then U+0100 to U+0143."""


def byte_vocabulary(
    *,
    control: Sequence[str] = (),
    user_defined: Sequence[str] = (),
    unused: Sequence[str] = (),
    add_bos: bool = False,
) -> Vocabulary:
    """Byte-level tokens without merges, then the given special tokens; the first control token
    is BOS."""
    special = (*control, *user_defined, *unused)
    kinds = (
        (TokenType.CONTROL,) * len(control)
        + (TokenType.USER_DEFINED,) * len(user_defined)
        + (TokenType.UNUSED,) * len(unused)
    )
    return Vocabulary(
        model="gpt2",
        pre="gpt-2",
        tokens=(*BYTE_ALPHABET, *special),
        types=(TokenType.NORMAL,) * 256 + kinds,
        merges=(),
        bos=256 if control else None,
        eos=None,
        unknown=None,
        padding=None,
        add_bos=add_bos,
        end_ids=frozenset(),
    )


_SPACE = "\u2581"


def piece_vocabulary(
    pieces: Sequence[str],
    *,
    control: Sequence[str] = ("<unk>", "<s>", "</s>"),
    user_defined: Sequence[str] = (),
    strip_after: Sequence[str] = (),
    byte_tokens: bool = True,
    unknown: int | None = 0,
    space_prefix: bool = True,
) -> Vocabulary:
    """SentencePiece: control tokens, byte tokens, user-defined tokens, pieces by falling score.

    Spaces in `pieces` are written as U+2581.
    """
    single = tuple(f"<0x{byte:02X}>" for byte in range(256)) if byte_tokens else ()
    normal = tuple(piece.replace(" ", _SPACE) for piece in pieces)
    tokens = (*control, *single, *user_defined, *normal)
    return Vocabulary(
        model="llama",
        pre="default",
        tokens=tokens,
        types=(TokenType.CONTROL,) * len(control)
        + (TokenType.BYTE,) * len(single)
        + (TokenType.USER_DEFINED,) * len(user_defined)
        + (TokenType.NORMAL,) * len(normal),
        merges=(),
        bos=None,
        eos=None,
        unknown=unknown,
        padding=None,
        add_bos=False,
        end_ids=frozenset(),
        scores=tuple(-float(index) for index in range(len(tokens))),
        space_prefix=space_prefix,
        strip_after=frozenset(tokens.index(text) for text in strip_after),
    )


@dataclass
class FakeMetadata:
    """Metadata getters over a dict, as `Vocabulary.from_metadata` needs them."""

    values: dict[str, object] = field(default_factory=dict)

    def _get(self, key: str) -> object:
        return self.values.get(key)

    def string(self, key: str) -> str:
        value = self._get(key)
        assert isinstance(value, str)
        return value

    def strings(self, key: str) -> list[str]:
        value = self._get(key)
        assert isinstance(value, list)
        return value

    def optional_string(self, key: str) -> str | None:
        value = self._get(key)
        assert value is None or isinstance(value, str)
        return value

    def optional_strings(self, key: str) -> list[str] | None:
        value = self._get(key)
        assert value is None or isinstance(value, list)
        return value

    def optional_integers(self, key: str) -> list[int] | None:
        value = self._get(key)
        assert value is None or isinstance(value, list)
        return value

    def optional_floats(self, key: str) -> list[float] | None:
        value = self._get(key)
        assert value is None or isinstance(value, list)
        return value

    def optional_uint(self, key: str) -> int | None:
        value = self._get(key)
        assert value is None or isinstance(value, int)
        return value

    def optional_boolean(self, key: str) -> bool | None:
        value = self._get(key)
        assert value is None or isinstance(value, bool)
        return value
