"""The blob format of exported sessions (reference, `bad_session_blob`; scenario 164)."""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pantheon.engine.errors import BadSessionBlob, WeightsVersionMismatch
from pantheon.engine.session_blob import (
    BlobHeader,
    BlobTarget,
    decode_blob,
    encode_blob,
    layout_of,
)

_PAGE = 4
_LAYOUT = (np.zeros((2, _PAGE, 3), np.float32), np.zeros((2, _PAGE, 3), np.float16))
_TARGET = BlobTarget("llama", 77, _LAYOUT, _PAGE, window=32, vocabulary=100)
_HEADER_AT = struct.calcsize("<4sHI")


def _pages(count: int, seed: int = 1) -> list[list[np.ndarray]]:
    random = np.random.default_rng(seed)
    return [
        [random.standard_normal(like.shape).astype(like.dtype) for like in _LAYOUT]
        for _ in range(count)
    ]


def _header(n_tok: int, **changes: Any) -> BlobHeader:
    plain = BlobHeader("llama", 77, n_tok, max(n_tok - 2, 1), [n_tok], layout_of(_LAYOUT))
    return replace(plain, **changes)


def _blob(tokens: list[int], **changes: Any) -> bytes:
    pages = _pages(-(-len(tokens) // _PAGE))
    return b"".join(encode_blob(_header(len(tokens), **changes), tokens, pages, _PAGE))


def _sealed(header: object, tokens: list[int], payload: bytes | None = None) -> bytes:
    """A blob of a foreign writer: whatever header and payload, with the right checksum."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    if payload is None:
        payload = _blob(tokens)[-32 - 144 * -(-len(tokens) // _PAGE) : -32]
    body = struct.pack("<4sHI", b"PNKV", 2, len(text)) + text + payload
    ids = b"".join(struct.pack("<I", token) for token in tokens)
    return body + hashlib.blake2b(body + ids, digest_size=32).digest()


@given(st.lists(st.integers(0, 99), min_size=1, max_size=32))
def test_what_was_exported_is_restored_bit_by_bit(tokens: list[int]) -> None:
    """Scenario 162. Past the last token the page is zero, and before it nothing is."""
    pages = _pages(-(-len(tokens) // _PAGE))
    expected = [[array.copy() for array in page] for page in pages]
    if len(tokens) % _PAGE:
        for array in expected[-1]:
            array[:, len(tokens) % _PAGE :] = 0
    blob = b"".join(encode_blob(_header(len(tokens)), tokens, pages, _PAGE))
    header, restored, _ = decode_blob(blob, tokens, _TARGET)
    assert header == _header(len(tokens))
    assert len(blob) <= _TARGET.largest_blob_bytes
    for page, wanted in zip(restored, expected, strict=True):
        for array, like in zip(page, wanted, strict=True):
            assert array.dtype == like.dtype
            np.testing.assert_array_equal(array, like)


def test_nothing_of_another_session_leaves_with_the_last_page() -> None:
    """Its unused places may have held somebody else's keys and values."""
    secret = [np.full(like.shape, 42, like.dtype) for like in _LAYOUT]
    blob = b"".join(encode_blob(_header(1), [5], [secret], _PAGE))
    arrays = np.frombuffer(blob[-32 - 144 : -32][: 2 * _PAGE * 3 * 4], np.float32)
    assert np.count_nonzero(arrays.reshape(2, _PAGE, 3)[:, 0]) == 6
    assert not arrays.reshape(2, _PAGE, 3)[:, 1:].any()


def test_the_bytes_are_as_the_format_says() -> None:
    tokens = [1, 2, 3]
    blob = _blob(tokens)
    magic, version, length = struct.unpack_from("<4sHI", blob)
    assert (magic, version) == (b"PNKV", 2)
    assert json.loads(blob[_HEADER_AT : _HEADER_AT + length]) == asdict(_header(3))
    assert len(blob) == _HEADER_AT + length + 144 + 32
    assert _sealed(asdict(_header(3)), tokens) == blob.replace(
        blob[_HEADER_AT : _HEADER_AT + length], json.dumps(asdict(_header(3))).encode()
    )


_SOUND = list(range(7))
_SOUND_BLOB = _blob(_SOUND)


@given(st.integers(0, len(_SOUND_BLOB) * 8 - 1))
@settings(max_examples=300)
def test_every_flipped_bit_is_noticed(bit: int) -> None:
    data = bytearray(_SOUND_BLOB)
    data[bit // 8] ^= 1 << bit % 8
    with pytest.raises(BadSessionBlob):
        decode_blob(bytes(data), _SOUND, _TARGET)


@given(st.integers(0, len(_SOUND_BLOB) - 1))
@settings(max_examples=300)
def test_every_truncation_is_noticed(length: int) -> None:
    for data in (_SOUND_BLOB[:length], _SOUND_BLOB[length:] if length else b""):
        with pytest.raises(BadSessionBlob):
            decode_blob(data, _SOUND, _TARGET)


@given(st.binary(min_size=1, max_size=300), st.integers(0, len(_SOUND_BLOB)))
def test_every_extension_is_noticed(extra: bytes, place: int) -> None:
    data = _SOUND_BLOB[:place] + extra + _SOUND_BLOB[place:]
    if data != _SOUND_BLOB:
        with pytest.raises(BadSessionBlob):
            decode_blob(data, _SOUND, _TARGET)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_bad_blob(data: bytes) -> None:
    with pytest.raises(BadSessionBlob):
        decode_blob(data, _SOUND, _TARGET)


@pytest.mark.parametrize(
    "tokens",
    [
        [*_SOUND[:-1], 99],
        _SOUND[:-1],
        [*_SOUND, 0],
        [],
        [*_SOUND[:-1], -1],
        [*_SOUND[:-1], 1 << 32],
        [*_SOUND[:-1], 10**30],
        [*_SOUND[:-1], float(_SOUND[-1])],
        [*_SOUND[:-1], str(_SOUND[-1])],
        [*_SOUND[:-1], None],
        [*_SOUND[:-1], [6]],
        [[token] for token in _SOUND],
        [False, True, *_SOUND[2:]],
    ],
)
def test_tokens_that_are_not_those_of_the_blob_are_refused(tokens: list[Any]) -> None:
    """Scenario 164: shorter, longer, changed, negative, no integers."""
    with pytest.raises(BadSessionBlob):
        decode_blob(_SOUND_BLOB, tokens, _TARGET)


def test_another_architecture_is_refused() -> None:
    with pytest.raises(BadSessionBlob, match="architecture llama, got 'qwen3'"):
        decode_blob(_blob(_SOUND, architecture="qwen3"), _SOUND, _TARGET)


def test_other_weights_are_told_apart_from_a_bad_blob() -> None:
    """Reference, 409 `weights_version_mismatch`: replay the conversation instead."""
    with pytest.raises(WeightsVersionMismatch, match="replay the conversation"):
        decode_blob(_blob(_SOUND, weights_version=78), _SOUND, _TARGET)


def test_a_damaged_blob_of_other_weights_is_a_bad_blob() -> None:
    data = _blob(_SOUND, weights_version=78)
    with pytest.raises(BadSessionBlob):
        decode_blob(data[:-1] + bytes([data[-1] ^ 1]), _SOUND, _TARGET)


def test_more_tokens_than_the_window_are_refused() -> None:
    """Reference: does not fit this model."""
    tokens = list(range(33))
    with pytest.raises(BadSessionBlob, match="33 tokens, but the window of this model is 32"):
        decode_blob(_blob(tokens), tokens, _TARGET)
    assert len(decode_blob(_blob(tokens[:32]), tokens[:32], _TARGET).pages) == 8


def test_an_id_outside_the_vocabulary_is_refused() -> None:
    with pytest.raises(BadSessionBlob, match="in 0 to 99"):
        decode_blob(_blob([5, 100]), [5, 100], _TARGET)


@pytest.mark.parametrize("layout", [[], [["float32", 2, 4, 3]], [["float32", 2, 4, 3]] * 2])
def test_another_layout_is_refused(layout: list[Any]) -> None:
    with pytest.raises(BadSessionBlob, match="laid out"):
        decode_blob(_blob(_SOUND, layout=layout), _SOUND, _TARGET)


def test_keys_and_values_of_another_precision_are_refused() -> None:
    """Reference, `bad_session_blob`: does not fit this model. The float32 of one server would be
    rounded by another, and no longer be what was exported."""
    layouts = [[np.zeros((2, _PAGE, 3), dtype)] * 2 for dtype in (np.float16, np.float32)]
    for held, coming in (layouts, layouts[::-1]):
        header = _header(3, layout=layout_of(coming))
        blob = b"".join(encode_blob(header, [1, 2, 3], [coming], _PAGE))
        name, other = (one[0].dtype.name for one in (held, coming))
        with pytest.raises(BadSessionBlob, match=f"PRECISION.*expected .*{name}.*got .*{other}"):
            decode_blob(blob, [1, 2, 3], replace(_TARGET, layout=held))
        assert decode_blob(blob, [1, 2, 3], replace(_TARGET, layout=coming)).header == header


@pytest.mark.parametrize("length", [0, 1 << 20, (1 << 20) + 1, (1 << 31) - 1, (1 << 32) - 1])
def test_a_header_length_of_any_size_allocates_nothing(length: int) -> None:
    """Scenario 164: a 2 GiB length field."""
    body = struct.pack("<4sHI", b"PNKV", 2, length) + _SOUND_BLOB[_HEADER_AT:-32]
    ids = b"".join(struct.pack("<I", token) for token in _SOUND)
    data = body + hashlib.blake2b(body + ids, digest_size=32).digest()
    with pytest.raises(BadSessionBlob):
        decode_blob(data, _SOUND, _TARGET)


@pytest.mark.parametrize("payload", [b"", b"x" * 144, b"x" * 287, b"x" * 289, b"x" * 432])
def test_a_payload_of_another_size_is_refused(payload: bytes) -> None:
    with pytest.raises(BadSessionBlob, match="need 288 bytes of KV"):
        decode_blob(_sealed(asdict(_header(7)), _SOUND, payload), _SOUND, _TARGET)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_keys_and_values_are_finite(value: float) -> None:
    """Pages are used again by others: none may come to hold what a weight of zero keeps."""
    pages = _pages(2)
    pages[1][1][0, 0, 0] = value
    blob = b"".join(encode_blob(_header(7), _SOUND, pages, _PAGE))
    with pytest.raises(BadSessionBlob, match="finite"):
        decode_blob(blob, _SOUND, _TARGET)


_json = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(10**40), 10**40),
        st.floats(),
        st.text(max_size=5),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@given(st.sampled_from([*asdict(_header(7)), "extra"]), _json)
@settings(max_examples=300)
def test_a_foreign_header_is_read_or_refused(field: str, value: object) -> None:
    """The checksum holds; only what a header may say is taken."""
    header = {**asdict(_header(7)), field: value}
    if header == asdict(_header(7)):
        return
    try:
        read = decode_blob(_sealed(header, _SOUND), _SOUND, _TARGET).header
    except (BadSessionBlob, WeightsVersionMismatch):
        return
    assert field in ("prompt_tokens", "answer_ends")
    assert type(read.prompt_tokens) is int and 0 < read.prompt_tokens <= 7
    assert all(type(end) is int and 0 <= end <= 7 for end in read.answer_ends)
    assert read.answer_ends == sorted(read.answer_ends)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"null",
        b"[]",
        b'"text"',
        b"{}",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"architecture":' + b"9" * 10_000 + b"}",
        json.dumps({**asdict(_header(7)), "n_tok": True}).encode(),
        json.dumps({**asdict(_header(7)), "answer_ends": [7.0]}).encode(),
        json.dumps({**asdict(_header(7)), "answer_ends": [7, 3]}).encode(),
        json.dumps({**asdict(_header(7)), "answer_ends": [8]}).encode(),
        json.dumps({**asdict(_header(7)), "prompt_tokens": 0}).encode(),
        json.dumps({**asdict(_header(7)), "prompt_tokens": 8}).encode(),
        json.dumps({**asdict(_header(7)), "architecture": None}).encode(),
    ],
)
def test_a_header_that_says_nothing_of_use_is_refused(text: bytes) -> None:
    with pytest.raises(BadSessionBlob):
        decode_blob(_sealed(text, _SOUND), _SOUND, _TARGET)
