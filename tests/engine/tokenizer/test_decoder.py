"""Incremental decoding: append-only, never half a character, the same text for every cut."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pantheon.engine.tokenizer import Tokenizer
from tests.engine.tokenizer.vocabularies import BYTE_ALPHABET, byte_vocabulary, golden_tokenizer

BYTES = Tokenizer(byte_vocabulary(control=["<s>"], user_defined=["<think>"], unused=["<u>"]))
_IDS = {BYTES.token_bytes.get(token): token for token in range(256)}


def byte_tokens(raw: bytes) -> list[int]:
    """One token per byte."""
    return [_IDS[bytes([byte])] for byte in raw]


def test_byte_alphabet_is_complete() -> None:
    assert len(BYTE_ALPHABET) == len(set(BYTE_ALPHABET)) == 256
    assert len(_IDS) == 256


@settings(deadline=None)
@given(raw=st.binary(max_size=64))
def test_stream_joins_to_the_whole(raw: bytes) -> None:
    """Any bytes, one token each: the joined text is that of the bytes as a whole."""
    decoder = BYTES.decoder()
    text = "".join([decoder.push(token) for token in byte_tokens(raw)]) + decoder.flush()
    assert text == raw.decode("utf-8", "replace")


@settings(deadline=None)
@given(text=st.text(max_size=32))
def test_no_half_characters(text: str) -> None:
    """After every token the text so far is a prefix of the whole, in whole characters."""
    decoder = BYTES.decoder()
    sent = ""
    for count, token in enumerate(byte_tokens(text.encode("utf-8", "replace")), 1):
        sent += decoder.push(token)
        complete = text.encode("utf-8", "replace")[:count].decode("utf-8", "ignore")
        assert sent == complete
    assert decoder.flush() == ""


@settings(deadline=None)
@given(raw=st.binary(max_size=64))
def test_at_most_three_bytes_are_held(raw: bytes) -> None:
    """Whatever was pushed, what is missing is less than a character: one replacement at most."""
    decoder = BYTES.decoder()
    sent = "".join(decoder.push(token) for token in byte_tokens(raw))
    rest = decoder.flush()
    assert len(rest) <= 1
    assert sent + rest == raw.decode("utf-8", "replace")


@settings(deadline=None)
@given(text=st.text(max_size=64), special=st.booleans())
def test_real_vocabulary_round_trip(text: str, special: bool) -> None:
    """gpt-2's vocabulary has every byte: encoding loses nothing."""
    tokenizer = golden_tokenizer("gpt-2")
    decoder = tokenizer.decoder(special=True)
    tokens = tokenizer.encode(text, special=special)
    assert "".join([decoder.push(token) for token in tokens]) + decoder.flush() == text


@pytest.mark.parametrize(
    ("raw", "texts"),
    [
        (b"\x9fA", ["\ufffd", "A"]),
        (b"\xffA", ["\ufffd", "A"]),
        (b"\xc0\x80", ["\ufffd", "\ufffd"]),
        (b"\xed\xa0\x80", ["", "\ufffd\ufffd", "\ufffd"]),
        (b"\xf4\x90A", ["", "\ufffd\ufffd", "A"]),
        (b"\xf0\x9f\x8d\xa9", ["", "", "", "🍩"]),
        (b"\xf0\x9f\x8dA", ["", "", "", "\ufffdA"]),
    ],
)
def test_invalid_bytes_are_replaced_at_once(raw: bytes, texts: list[str]) -> None:
    """Only a valid beginning is held; the replacements are those of WHATWG and Unicode 3.9."""
    decoder = BYTES.decoder()
    assert [decoder.push(token) for token in byte_tokens(raw)] == texts
    assert decoder.flush() == ""


def test_a_character_cut_by_the_end_is_flushed_as_a_replacement() -> None:
    decoder = BYTES.decoder()
    assert [decoder.push(token) for token in byte_tokens("a🦜".encode()[:-1])] == ["a", "", "", ""]
    assert decoder.flush() == "\ufffd"
    assert decoder.flush() == ""


def test_special_tokens_are_left_out_unless_asked_for() -> None:
    tokens = [256, 257, 258]
    assert [BYTES.token_bytes.get(token) for token in tokens] == [b"", b"<think>", b""]
    assert BYTES.decode(tokens) == "<think>"
    assert BYTES.decode(tokens, special=True) == "<s><think>"


@pytest.mark.parametrize("token", [-1, 259, 151_936, 1 << 40])
def test_ids_outside_the_vocabulary_are_empty(token: int) -> None:
    """Models pad their output rows beyond the token list."""
    assert BYTES.token_bytes.get(token, special=True) == b""
    assert BYTES.decoder().push(token) == ""


def test_a_control_token_does_not_complete_a_character() -> None:
    """An end of turn inside a character: the held bytes are the flush's to replace."""
    decoder = BYTES.decoder()
    (first,) = byte_tokens(b"\xc3")
    assert decoder.push(first) + decoder.push(256) == ""
    assert decoder.flush() == "\ufffd"
