"""How fast text is encoded, by each kind of tokenizer."""

from __future__ import annotations

import lzma
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

from bench.errors import BenchError
from pantheon.engine.gguf import GGUFFile
from pantheon.engine.tokenizer import Tokenizer, Vocabulary

TEXT_BYTES: Final = 1_000_000
_VOCABULARIES: Final = ("gpt-2", "llama-bpe", "llama-spm", "phi-3", "qwen2", "qwen35", "smollm")


@dataclass(frozen=True, slots=True)
class Encoding:
    """Processor seconds to encode a text, one sample a round.

    One thread encodes, so on an idle machine they are the seconds that pass.

    Attributes:
        tokens: how many ids came out.
    """

    name: str
    seconds: tuple[float, ...]
    tokens: int

    def record(self) -> dict[str, Any]:
        """The measurement as JSON, with its samples."""
        return {
            "name": self.name,
            "tokens": self.tokens,
            "median": round(median(self.seconds), 4),
            "samples": [round(sample, 4) for sample in self.seconds],
        }


def encode_texts(root: Path, rounds: int) -> tuple[Encoding, ...]:
    """Encode a megabyte of code, and one of a single letter, with every reference vocabulary.

    The code is that of this project, over and over; the letter is what merges slowest.

    Raises:
        BenchError: the reference vocabularies are not there.
    """
    code = _repeated("".join(file.read_text() for file in sorted(root.glob("pantheon/**/*.py"))))
    tokenizers = {name: _tokenizer(root, name) for name in _VOCABULARIES}
    texts = {"code": code, "one letter": "a" * TEXT_BYTES}
    return tuple(
        _measure(f"{name}, {kind}", partial(tokenizer.encode, text, special=False), rounds)
        for kind, text in texts.items()
        for name, tokenizer in tokenizers.items()
    )


def table(encodings: Sequence[Encoding]) -> str:
    """Median seconds, bytes by second and tokens of each text."""
    width = max(len(encoding.name) for encoding in encodings)
    lines = [f"{'vocabulary, text'.ljust(width)}  seconds   MB/s   tokens"]
    for encoding in encodings:
        seconds = median(encoding.seconds)
        lines.append(
            f"{encoding.name.ljust(width)}  {seconds:7.2f}  {TEXT_BYTES / seconds / 1e6:5.2f}"
            f"  {encoding.tokens:7,}"
        )
    return "\n".join(lines)


def _measure(name: str, encode: Callable[[], list[int]], rounds: int) -> Encoding:
    seconds = []
    tokens = 0
    for _ in range(rounds):
        start = time.process_time()
        tokens = len(encode())
        seconds.append(time.process_time() - start)
    return Encoding(name, tuple(seconds), tokens)


def _repeated(text: str) -> str:
    """A text of `TEXT_BYTES` bytes in ASCII."""
    plain = text.encode("ascii", "ignore").decode()
    return (plain * (TEXT_BYTES // len(plain) + 1))[:TEXT_BYTES]


def _tokenizer(root: Path, name: str) -> Tokenizer:
    packed = root / "tests" / "data" / "tokenizers" / f"ggml-vocab-{name}.gguf.xz"
    if not packed.is_file():
        raise BenchError(f"there is no {packed.relative_to(root)}; the bench runs from a checkout")
    with TemporaryDirectory(prefix="bench-") as directory:
        file = Path(directory) / "vocabulary.gguf"
        file.write_bytes(lzma.decompress(packed.read_bytes()))
        with GGUFFile(file) as opened:
            return Tokenizer(Vocabulary.from_metadata(opened.metadata))
