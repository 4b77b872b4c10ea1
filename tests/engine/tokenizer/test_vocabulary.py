"""Reading vocabularies from metadata: golden files, and damaged ones."""

import pytest

from pantheon.engine.tokenizer import Tokenizer, TokenizerError, TokenType, Vocabulary
from tests.engine.tokenizer.vocabularies import FakeMetadata, golden_metadata

GOOD: dict[str, object] = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": ["a", "b", "ab", "<|im_end|>", "</s>"],
    "tokenizer.ggml.token_type": [1, 1, 1, 3, 1],
    "tokenizer.ggml.merges": ["a b"],
}


def vocabulary(**changes: object) -> Vocabulary:
    values = GOOD | {f"tokenizer.ggml.{key}": value for key, value in changes.items()}
    return Vocabulary.from_metadata(FakeMetadata(values))


def test_smollm_vocabulary() -> None:
    """tests/data/tokenizers/ggml-vocab-smollm.gguf: 17 control tokens, im_end ends a turn."""
    read = Vocabulary.from_metadata(golden_metadata("smollm"))
    assert (len(read), len(read.merges), read.pre) == (49152, 48900, "smollm")
    assert (read.bos, read.eos, read.unknown, read.padding, read.add_bos) == (1, 2, 0, 2, False)
    assert read.types.count(TokenType.CONTROL) == 17
    assert {read.tokens[end] for end in read.end_ids} == {"<|endoftext|>", "<|im_end|>"}


def test_user_defined_tokens_are_told_from_control_tokens() -> None:
    """tests/data/models/llama-minicpm5-f32.gguf: think tags are user-defined."""
    read = Vocabulary.from_metadata(golden_metadata("tiny-llama-minicpm5"))
    assert {"<think>", "</think>"} <= read.texts(TokenType.USER_DEFINED).keys()
    assert {read.tokens[end] for end in read.end_ids} == {"</s>", "<|im_end|>", "<|endoftext|>"}


def test_every_end_token_of_llama3_is_known() -> None:
    """tests/data/models/llama3-rope-f32.gguf: more than one token ends generation."""
    read = Vocabulary.from_metadata(golden_metadata("tiny-llama3-rope"))
    ends = {read.tokens[end] for end in read.end_ids}
    assert ends == {"<|end_of_text|>", "<|eot_id|>", "<|eom_id|>"}


def test_end_tokens_come_from_metadata_and_from_control_texts_only() -> None:
    """`</s>` here is an ordinary token (strikethrough in HTML), so it does not end a turn."""
    assert vocabulary().end_ids == {3}
    named = vocabulary(eos_token_id=0, eot_token_id=1, eom_token_id=2)
    assert named.end_ids == {0, 1, 2, 3}


def test_defaults_of_absent_keys() -> None:
    read = vocabulary(token_type=None, merges=None, pre=None)
    assert set(read.types) == {TokenType.NORMAL}
    assert (read.merges, read.pre, read.add_bos, read.bos) == ((), "default", False, None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokens": []}, r"tokens must hold 1 to \d+ tokens, found 0"),
        ({"tokens": ["a", "", "ab", "c", "d"]}, r"texts of 1 to \d+ characters; token 1 has 0"),
        ({"tokens": ["a"] * 5}, "tokens 0 and 1 are both 'a'"),
        ({"tokens": ["x" * 5000, "b", "ab", "c", "d"]}, "token 0 has 5000"),
        ({"token_type": [1, 1]}, "one entry per token, 5; found 2"),
        ({"token_type": [1, 1, 1, 1, 9]}, "types 1 to 6; token 4 has type 9"),
        ({"merges": ["ab"]}, "separated by one space; entry 0 is 'ab'"),
        ({"merges": ["a b", "a "]}, "entry 1 is 'a '"),
        ({"merges": ["a b c"]}, "entry 0 is 'a b c'"),
        ({"bos_token_id": 5}, "bos_token_id must be below the vocabulary size 5, found 5"),
        ({"eos_token_id": 1 << 31}, "eos_token_id must be below the vocabulary size 5"),
        ({"padding_token_id": 99}, "padding_token_id must be below"),
        ({"add_bos_token": True}, "add_bos_token is true, but .*bos_token_id is missing"),
    ],
)
def test_damaged_vocabularies_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(TokenizerError, match=message):
        vocabulary(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "rwkv"}, "model is 'rwkv'; supported kinds are gpt2, llama"),
        ({"pre": "porter"}, "pre is 'porter'; known pre-tokenizers are .*smollm"),
        ({"merges": ["a c"]}, "joins 'a' and 'c', but 'c' is no token"),
        ({"merges": ["b a"]}, "joins 'b' and 'a', but 'ba' is no token"),
        ({"token_type": [1, 1, 1, 3, 6]}, "token 4 is a byte token and must be '<0xXX>'"),
    ],
)
def test_unsupported_tokenizers_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(TokenizerError, match=message):
        Tokenizer(vocabulary(**changes))


def test_overlong_special_tokens_are_refused() -> None:
    tokens = ["a", "b", "ab", "<" + "x" * 300 + ">", "c"]
    with pytest.raises(TokenizerError, match=r"at most 256 characters; .* has 302"):
        Tokenizer(vocabulary(tokens=tokens))
