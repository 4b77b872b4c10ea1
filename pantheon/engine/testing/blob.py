"""The snapshot format of scripted models: a head and four bytes for each token."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Final

from pantheon.engine.errors import BadSessionBlob, WeightsVersionMismatch
from pantheon.engine.snapshot import SessionSnapshot

_MAGIC: Final = b"SCRIPTED"
_HEAD: Final = struct.Struct("<8sQQI")
"""Magic, weights version, count of tokens, CRC-32 of the tokens."""

_TOKEN_BYTES: Final = 4


def blob_bytes(tokens: int) -> int:
    """Bytes of the blob of so many tokens."""
    return _HEAD.size + _TOKEN_BYTES * tokens


def pack(weights_version: int, tokens: Sequence[int]) -> SessionSnapshot:
    """The snapshot of a history, its blob in one piece for the head and one for each token."""
    pieces = [struct.pack("<I", token) for token in tokens]
    head = _HEAD.pack(_MAGIC, weights_version, len(tokens), zlib.crc32(b"".join(pieces)))
    return SessionSnapshot(
        weights_version, tuple(tokens), (head, *(memoryview(piece) for piece in pieces))
    )


def check(blob: bytes, tokens: Sequence[int], weights_version: int, window: int) -> None:
    """Refuse a blob that is none, or is none of these tokens and weights.

    Raises:
        BadSessionBlob, WeightsVersionMismatch.
    """
    if len(blob) < _HEAD.size or not blob.startswith(_MAGIC):
        raise BadSessionBlob(f"expected the blob of a scripted session, got {len(blob)} bytes")
    _, version, count, checksum = _HEAD.unpack_from(blob)
    body = blob[_HEAD.size :]
    if len(body) != _TOKEN_BYTES * count or zlib.crc32(body) != checksum:
        raise BadSessionBlob("the blob is corrupt")
    if version != weights_version:
        raise WeightsVersionMismatch(f"expected weights {weights_version}, got {version}")
    if count > window:
        raise BadSessionBlob(f"expected at most {window} tokens, got {count}")
    if list(tokens) != list(struct.unpack(f"<{count}I", body)):
        raise BadSessionBlob("expected the tokens that the blob covers, got others")
