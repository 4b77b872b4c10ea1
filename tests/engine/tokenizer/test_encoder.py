"""Token ids against llama.cpp's and the tokenizers library's, from tests/data/tokenizers."""

import base64
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from pantheon.engine.gguf import GGUFFile
from pantheon.engine.tokenizer import Tokenizer, TokenizerError, Vocabulary
from tests.engine.tokenizer.vocabularies import FILES, byte_vocabulary, golden_tokenizer
from tests.golden import DATA, golden_file, golden_json

NASTY = golden_json("tokenizers/nasty.json")
DEFAULT = golden_json("tokenizers/llama-server.json")["default"]
VECTORS = ["gpt-2", "llama-bpe", "llama-spm", "phi-3", "qwen2", "qwen35", "smollm"]


def golden_strings(name: str) -> list[tuple[str, str, dict[str, Any]]]:
    """(label, text, ids) of every string of nasty.json that is valid UTF-8."""
    return [
        (string["label"], string["text"], expected)
        for string, expected in zip(NASTY["strings"], NASTY["vocabs"][name], strict=True)
        if string.get("text") is not None
    ]


@pytest.mark.parametrize("name", VECTORS)
def test_published_vectors(name: str) -> None:
    """ggml-vocab-NAME.gguf.inp and .out: special tokens are not parsed."""
    base = DATA / "tokenizers" / f"ggml-vocab-{name}.gguf.inp"
    texts = base.read_bytes().decode().split("\n__ggml_vocab_test__\n")
    lines = base.with_suffix(".out").read_text().split("\n")
    assert len(lines) >= len(texts) > 40
    tokenizer = golden_tokenizer(name)
    for text, line in zip(texts, lines, strict=False):
        assert tokenizer.encode(text, special=False) == [int(token) for token in line.split()], text


@pytest.mark.parametrize("name", FILES)
def test_difficult_strings_as_plain_text(name: str) -> None:
    """nasty.json `plain`; for tekken's zalgo the published expression, not llama.cpp's, is right
    (`hf_special`; the string holds no special token, so both are the same)."""
    tokenizer = golden_tokenizer(name)
    for label, text, expected in golden_strings(name):
        published = label in NASTY["hf_differs"].get(name, ())
        ids = expected["hf_special"] if published else expected["plain"]
        assert tokenizer.encode(text, special=False) == ids, label


@pytest.mark.parametrize("name", FILES)
def test_difficult_strings_with_special_tokens(name: str) -> None:
    """nasty.json `special`, and `hf_special` where it is given.

    llama.cpp takes the ordinary token `</s>` of the Qwen vocabularies for a control token; here
    the file's own token types decide, so `spm specials` is left out for them.
    """
    tokenizer = golden_tokenizer(name)
    for label, text, expected in golden_strings(name):
        if name in ("qwen2", "qwen35") and label == "spm specials":
            continue
        ids = expected.get("hf_special", expected["special"])
        assert tokenizer.encode(text, special=True) == ids, label


@pytest.mark.parametrize("name", FILES)
def test_bos_where_the_file_asks(name: str) -> None:
    """nasty.json `bos` of the empty string: what the file adds on its own.

    The llama-bpe file does not say whether it wants BOS; llama.cpp then adds one for this
    pre-tokenizer, here nothing is added that no key asks for.
    """
    vocabulary = golden_tokenizer(name).vocabulary
    for label, _, expected in golden_strings(name):
        added = [vocabulary.bos] if vocabulary.add_bos or name == "llama-bpe" else []
        assert expected["bos"] == added + expected["special"], label
    assert vocabulary.add_bos == (
        name.removeprefix("tiny-")
        in ("llama-spm", "phi-3", "llama-minicpm5", "llama-mistral", "llama3-rope")
    )


def test_a_file_without_a_pretokenizer() -> None:
    """tests/data/tokenizers/llama-server.json `default`: the tiny qwen2's vocabulary, its
    `tokenizer.ggml.pre` taken away."""
    metadata = GGUFFile(golden_file("models/qwen2-f32.gguf")).metadata
    vocabulary = replace(Vocabulary.from_metadata(metadata), pre="default")
    tokenizer = Tokenizer(vocabulary)
    assert len(DEFAULT) > 100
    for entry in DEFAULT:
        assert tokenizer.encode(entry["text"], special=False) == entry["ids"], entry["text"]


@pytest.mark.parametrize("name", FILES)
def test_decoding(name: str) -> None:
    """nasty.json `decoded_b64`: `special` with special tokens written out."""
    tokenizer = golden_tokenizer(name)
    for string, expected in zip(NASTY["strings"], NASTY["vocabs"][name], strict=True):
        raw = base64.b64decode(expected["decoded_b64"])
        tokens = expected["special"]
        decoder = tokenizer.decoder(special=True)
        joined = b""
        for token in tokens:
            decoder.push(token)
            joined += decoder.latest
        assert joined == raw, string["label"]
        assert tokenizer.decode(tokens, special=True) == raw.decode("utf-8", "replace")


def test_control_tokens_are_never_found_in_plain_text() -> None:
    tokenizer = golden_tokenizer("smollm")
    text = "".join(tokenizer.control_texts) * 3
    control = {tokenizer.vocabulary.tokens.index(text) for text in tokenizer.control_texts}
    assert control.isdisjoint(tokenizer.encode(text, special=False))
    assert set(tokenizer.encode(text, special=True)) == control


def test_a_word_that_is_a_control_token_is_not_taken_whole() -> None:
    """llama-bpe takes words that are tokens without merging: control tokens must not be among
    them, nor be the result of a merge."""
    vocabulary = replace(byte_vocabulary(control=["ab"]), pre="llama-bpe", merges=(("a", "b"),))
    tokenizer = Tokenizer(vocabulary)
    assert 256 not in tokenizer.encode("ab", special=False)
    assert tokenizer.encode("ab", special=True) == [256]


def test_user_defined_tokens_are_found_everywhere() -> None:
    """tests/data/models/llama-minicpm5-f32.gguf: `<think>` is token 1014 in its nasty.json ids."""
    tokenizer = golden_tokenizer("tiny-llama-minicpm5")
    assert tokenizer.encode("<think>", special=False) == [1014]
    assert tokenizer.encode("<think>", special=True) == [1014]


def test_longest_special_token_wins() -> None:
    tokenizer = Tokenizer(byte_vocabulary(control=["<a", "<a>", "<a><b>"], user_defined=["<b>"]))
    assert tokenizer.encode("<a><b><a><a<b>", special=True) == [258, 257, 256, 259]


def test_single_character_control_tokens_are_not_matched() -> None:
    tokenizer = Tokenizer(byte_vocabulary(control=["\u2581", "<s>"]))
    assert 256 not in tokenizer.encode("\u2581<s>", special=True)


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "ok<|im_end|>\ud83d"])
def test_lone_surrogates_are_refused(text: str, special: bool) -> None:
    with pytest.raises(TokenizerError, match="must not hold lone surrogates"):
        golden_tokenizer("smollm").encode(text, special=special)


@pytest.mark.parametrize("name", ["smollm", "llama-spm"])
@pytest.mark.parametrize(
    "unit", ["def f(x):\n    return x + 1234\n", " ", "a", "<", "<|im_", "\n", "e\u0301", "😀"]
)
def test_a_megabyte_of_any_text_is_fast(unit: str, name: str) -> None:
    """Code and adversarial runs; linear time, so a generous bound finds anything worse."""
    text = unit * (1_000_000 // len(unit.encode()))
    tokenizer = golden_tokenizer(name)
    start = time.monotonic()
    tokens = tokenizer.encode(text, special=True)
    assert time.monotonic() - start < 20
    assert tokenizer.decode(tokens, special=True) == text


def test_encoding_from_several_threads() -> None:
    tokenizer = golden_tokenizer("smollm")
    texts = [text for _, text, _ in golden_strings("smollm")]
    expected = [tokenizer.encode(text, special=True) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(
            lambda _: [tokenizer.encode(text, special=True) for text in texts], range(16)
        ):
            assert found == expected
