"""States of recurrent layers in the blob of an exported session (scenario 162)."""

import hashlib
import json
import struct
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

from pantheon.engine.errors import BadSessionBlob
from pantheon.engine.session_blob import (
    BlobHeader,
    BlobTarget,
    decode_blob,
    encode_blob,
    layout_of,
)

_PAGE = 4
_LAYOUT = [np.zeros((2, _PAGE, 3), np.float32)]
_STATE = [np.zeros((3, 5), np.float32), np.zeros((2, 4, 4), np.float32)]
_TARGET = BlobTarget("toy", 77, _LAYOUT, _PAGE, window=32, vocabulary=100, state_layout=_STATE)
_PAGE_BYTES, _STATE_BYTES = 96, 188
_TOKENS = list(range(7))
_HEADER = BlobHeader("toy", 77, 7, 5, [7], layout_of(_LAYOUT), [4, 7], layout_of(_STATE))


def _parts(layout: list[np.ndarray], count: int, seed: int) -> list[list[np.ndarray]]:
    random = np.random.default_rng(seed)
    return [
        [random.standard_normal(like.shape).astype(like.dtype) for like in layout]
        for _ in range(count)
    ]


def _sealed(header: dict[str, Any], states: int = 2) -> bytes:
    """A blob of a foreign writer: whatever header, with the right checksum."""
    text = json.dumps(header).encode()
    payload = bytes(2 * _PAGE_BYTES + states * _STATE_BYTES)
    body = struct.pack("<4sHI", b"PNKV", 2, len(text)) + text + payload
    ids = b"".join(struct.pack("<I", token) for token in _TOKENS)
    return body + hashlib.blake2b(body + ids, digest_size=32).digest()


def test_states_come_back_bit_by_bit_behind_the_pages() -> None:
    pages, states = _parts(_LAYOUT, 2, 1), _parts(_STATE, 2, 2)
    blob = b"".join(encode_blob(_HEADER, _TOKENS, pages, _PAGE, states))
    assert len(blob) <= _TARGET.largest_blob_bytes
    assert blob[-32 - 2 * _STATE_BYTES : -32] == b"".join(
        array.tobytes() for state in states for array in state
    )
    found = decode_blob(blob, _TOKENS, _TARGET)
    assert found.header == _HEADER
    assert len(found.states) == 2
    for state, expected in zip(found.states, states, strict=True):
        for array, like in zip(state, expected, strict=True):
            np.testing.assert_array_equal(array, like)


@pytest.mark.parametrize(
    ("changed", "states"),
    [
        ({"checkpoints": []}, 0),
        ({"checkpoints": [4]}, 1),
        ({"checkpoints": [7, 4]}, 2),
        ({"checkpoints": [7, 7]}, 2),
        ({"checkpoints": [0, 7]}, 2),
        ({"checkpoints": [7, 8]}, 2),
        ({"checkpoints": [2, 4, 7]}, 3),
        ({"checkpoints": [4.0, 7]}, 2),
        ({"checkpoints": [True, 7]}, 2),
        ({"checkpoints": "47"}, 2),
        ({"checkpoints": None}, 2),
        ({"state_layout": []}, 2),
        ({"state_layout": [["float32", 3, 5]]}, 2),
        ({"state_layout": [["float16", 3, 5], ["float32", 2, 4, 4]]}, 2),
        ({"state_layout": {}}, 2),
        ({}, 1),
        ({}, 3),
    ],
)
def test_states_that_cannot_be_are_a_bad_blob(changed: dict[str, Any], states: int) -> None:
    assert decode_blob(_sealed(asdict(_HEADER)), _TOKENS, _TARGET).states
    with pytest.raises(BadSessionBlob):
        decode_blob(_sealed({**asdict(_HEADER), **changed}, states), _TOKENS, _TARGET)


def test_a_model_without_recurrent_layers_takes_no_states() -> None:
    attending = replace(_TARGET, state_layout=())
    with pytest.raises(BadSessionBlob, match="states are laid out"):
        decode_blob(_sealed(asdict(_HEADER)), _TOKENS, attending)
