"""The file format of an exported conversation.

    4 bytes   PNKV
    2 bytes   version, 2
    4 bytes   length of the header
    header    JSON object, UTF-8: see `BlobHeader`
    pages     each page's arrays one after another in C order, little-endian
    states    likewise the arrays of each checkpoint of the recurrent layers
    32 bytes  BLAKE2b-256 of all of the above and of the tokens as 32-bit integers

Integers are little-endian and unsigned. The tokens themselves travel beside the blob (reference,
`POST /admin/session/export`). Places of the last page past the last token are zero: they may have
held another session's data.

A model with recurrent layers resumes at a checkpoint of their state only: the blob has the one
after its last token, and where there is one the last inside the prompt on the grid of checkpoints,
for a next turn that parts from this one before its answer.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from pantheon.engine.errors import BadSessionBlob, WeightsVersionMismatch

_MAGIC: Final = b"PNKV"
_VERSION: Final = 2
_PREFIX: Final = struct.Struct("<4sHI")
_DIGEST_BYTES: Final = 32
_MOST_HEADER_BYTES: Final = 1 << 20
MOST_STATES: Final = 2
"""Checkpoints of a blob."""

Page = Sequence[np.ndarray]
"""The arrays of one page, keys and values of each layer in order: (kv_heads, page_size, ...)."""

State = Sequence[np.ndarray]
"""The arrays of one checkpoint, what a sequence leaves in each recurrent layer in order."""


@dataclass(frozen=True, slots=True)
class BlobHeader:
    """What a blob says of itself.

    Attributes:
        architecture: `general.architecture` of the model file.
        weights_version: tells the weights apart.
        n_tok: tokens whose KV it holds.
        prompt_tokens: leading tokens that were the last turn's prompt.
        answer_ends: numbers of leading tokens at which an answer ends, rising.
        layout: for each array of a page its dtype and shape; the dtype is what the server keeps
            keys and values in, and a blob is never converted to another.
        checkpoints: numbers of leading tokens after which it has the state, rising.
        state_layout: for each array of a state its dtype and shape.
    """

    architecture: str
    weights_version: int
    n_tok: int
    prompt_tokens: int
    answer_ends: list[int]
    layout: list[list[Any]]
    checkpoints: list[int] = field(default_factory=list)
    state_layout: list[list[Any]] = field(default_factory=list)


class DecodedBlob(NamedTuple):
    """A blob taken apart. The arrays are views of it.

    Attributes:
        states: one for each of the header's checkpoints.
    """

    header: BlobHeader
    pages: list[list[np.ndarray]]
    states: list[list[np.ndarray]]


@dataclass(frozen=True, slots=True)
class BlobTarget:
    """The model that a blob is for.

    Attributes:
        layout: a page of it, filled with anything.
        window: most tokens of a session.
        vocabulary: token ids are below it.
        state_layout: a state of its recurrent layers, filled with anything; empty without them.
    """

    architecture: str
    weights_version: int
    layout: Page
    page_size: int
    window: int
    vocabulary: int
    state_layout: State = ()

    @property
    def page_bytes(self) -> int:
        """Bytes of one page."""
        return sum(array.nbytes for array in self.layout)

    @property
    def state_bytes(self) -> int:
        """Bytes of one state."""
        return sum(array.nbytes for array in self.state_layout)

    @property
    def largest_blob_bytes(self) -> int:
        """Most bytes that a blob for this model can have."""
        pages = -(-self.window // self.page_size)
        payload = pages * self.page_bytes + MOST_STATES * self.state_bytes
        return _PREFIX.size + _MOST_HEADER_BYTES + payload + _DIGEST_BYTES


def encode_blob(
    header: BlobHeader,
    tokens: Sequence[int],
    pages: Sequence[Page],
    page_size: int,
    states: Sequence[State] = (),
) -> list[bytes | memoryview]:
    """Make a blob, in pieces. The arrays are not copied; the last page's padding is zeroed."""
    text = json.dumps(asdict(header)).encode()
    pieces: list[bytes | memoryview] = [_PREFIX.pack(_MAGIC, _VERSION, len(text)), text]
    used = header.n_tok % page_size
    if pages and used:
        for array in pages[-1]:
            array[:, used:] = 0
    for part in (*pages, *states):
        pieces += [np.ascontiguousarray(_little_endian(array)).data.cast("B") for array in part]
    pieces.append(_digest(pieces, tokens))
    return pieces


def decode_blob(blob: bytes, tokens: Sequence[int], target: BlobTarget) -> DecodedBlob:
    """Check a blob against its checksum, its tokens and the model, and take it apart.

    Raises:
        BadSessionBlob: it is corrupt, of another architecture, or does not fit the model.
        WeightsVersionMismatch: it is sound, and of other weights.
    """
    header, payload = _open(memoryview(blob), tokens)
    if header.architecture != target.architecture:
        raise BadSessionBlob(
            f"the blob must be of architecture {target.architecture}, "
            f"got {header.architecture[:100]!r}"
        )
    if header.weights_version != target.weights_version:
        raise WeightsVersionMismatch(
            f"the blob was captured under weights {header.weights_version}, this model has "
            f"{target.weights_version}: replay the conversation instead"
        )
    if header.n_tok > target.window:
        raise BadSessionBlob(
            f"the blob holds {header.n_tok} tokens, but the window of this model is {target.window}"
        )
    if any(not 0 <= token < target.vocabulary for token in tokens):
        raise BadSessionBlob(f"token ids must be in 0 to {target.vocabulary - 1}")
    if header.layout != layout_of(target.layout):
        raise BadSessionBlob(
            "the blob's KV pages are laid out for another build or PANTHEON_PRECISION of this "
            f"model: expected {layout_of(target.layout)[:1]} and so on, "
            f"got {header.layout[:1]!s:.100}"
        )
    if header.state_layout != layout_of(target.state_layout):
        raise BadSessionBlob("the blob's states are laid out for another build of this model")
    if bool(header.checkpoints) != bool(target.state_layout) or (
        header.checkpoints and header.checkpoints[-1] != header.n_tok
    ):
        raise BadSessionBlob("the blob must have the state after its last token")
    count = -(-header.n_tok // target.page_size)
    kv_bytes = count * target.page_bytes
    needed = kv_bytes + len(header.checkpoints) * target.state_bytes
    if len(payload) != needed:
        raise BadSessionBlob(
            f"{header.n_tok} tokens need {needed} bytes of KV and states, "
            f"the blob has {len(payload)}"
        )
    return DecodedBlob(
        header,
        _take_parts(payload[:kv_bytes], target.layout, count),
        _take_parts(payload[kv_bytes:], target.state_layout, len(header.checkpoints)),
    )


def layout_of(page: Page) -> list[list[Any]]:
    """How a page's arrays are laid out, as a header writes it."""
    return [[array.dtype.name, *array.shape] for array in page]


def _open(blob: memoryview, tokens: Sequence[int]) -> tuple[BlobHeader, memoryview]:
    if len(blob) < _PREFIX.size + _DIGEST_BYTES:
        raise BadSessionBlob(f"a session blob has at least 42 bytes, got {len(blob)}")
    magic, version, length = _PREFIX.unpack_from(blob)
    if magic != _MAGIC or version != _VERSION:
        raise BadSessionBlob(f"not a session blob of version {_VERSION}")
    body = blob[:-_DIGEST_BYTES]
    if length > min(_MOST_HEADER_BYTES, len(body) - _PREFIX.size):
        raise BadSessionBlob("the header of the session blob is longer than the blob")
    if _digest([body], tokens) != bytes(blob[-_DIGEST_BYTES:]):
        raise BadSessionBlob("the session blob and its tokens do not match its checksum")
    header = _read_header(bytes(body[_PREFIX.size : _PREFIX.size + length]))
    if header.n_tok != len(tokens):
        raise BadSessionBlob(
            f"the session blob covers {header.n_tok} tokens, but {len(tokens)} came with it"
        )
    return header, body[_PREFIX.size + length :]


def _read_header(text: bytes) -> BlobHeader:
    """The checksum holds, so only a foreign writer is guarded against here."""
    try:
        values = json.loads(text)
        header = BlobHeader(**values)
    except (ValueError, TypeError, RecursionError) as error:
        raise BadSessionBlob("the header of the session blob cannot be read") from error
    numbers = [header.weights_version, header.n_tok, header.prompt_tokens]
    if not (
        isinstance(header.architecture, str)
        and isinstance(header.answer_ends, list)
        and isinstance(header.layout, list)
        and isinstance(header.checkpoints, list)
        and isinstance(header.state_layout, list)
        and all(type(number) is int and number >= 0 for number in [*numbers, *header.answer_ends])
        and all(type(number) is int for number in header.checkpoints)
        and 0 < header.prompt_tokens <= header.n_tok
        and all(end <= header.n_tok for end in header.answer_ends)
        and len(header.checkpoints) <= MOST_STATES
        and all(0 < place <= header.n_tok for place in header.checkpoints)
        and header.checkpoints == sorted(set(header.checkpoints))
        and header.answer_ends == sorted(header.answer_ends)
    ):
        raise BadSessionBlob("the header of the session blob has a value that it cannot have")
    return header


def _take_parts(data: memoryview, layout: Page | State, count: int) -> list[list[np.ndarray]]:
    size = len(data) // count if count else 0
    return [_take_page(data[i * size : (i + 1) * size], layout) for i in range(count)]


def _take_page(data: memoryview, layout: Page) -> list[np.ndarray]:
    arrays, start = [], 0
    for like in layout:
        dtype = like.dtype.newbyteorder("<")
        part = np.frombuffer(data[start : start + like.nbytes], dtype).reshape(like.shape)
        # Whoever gets the page next may multiply what is in it by zero.
        if not np.isfinite(part).all():
            raise BadSessionBlob("the session blob has a key or value that is no finite number")
        arrays.append(part.astype(like.dtype, copy=False))
        start += like.nbytes
    return arrays


def _little_endian(array: np.ndarray) -> np.ndarray:
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def _digest(pieces: Sequence[bytes | memoryview], tokens: Sequence[int]) -> bytes:
    # NumPy would take a fraction, a text or a nested list for the integer that is in it.
    if any(type(token) is not int for token in tokens):
        raise BadSessionBlob("token ids must be integers")
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for piece in pieces:
        digest.update(piece)
    try:
        digest.update(np.asarray(tokens, np.dtype("<u4")).tobytes())
    except OverflowError as error:
        raise BadSessionBlob("token ids must be integers of at most 32 bits") from error
    return digest.digest()
