"""Parsing of everything before the tensor data: header, metadata, tensor table.

Source: the GGUF specification (ggml, docs/gguf.md). Versions 2 and 3 share one layout; version 1
had 32-bit counts and is refused, as is a big-endian file.
"""

from dataclasses import dataclass

from pantheon.engine.gguf.cursor import Cursor
from pantheon.engine.gguf.errors import GGUFError
from pantheon.engine.gguf.metadata import Metadata
from pantheon.engine.gguf.tensor import TensorInfo, check_extent, read_tensor_info
from pantheon.engine.gguf.values import Array, Scalar, read_value

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MAX_METADATA_PAIRS = 1 << 16
MAX_TENSORS = 1 << 17
MAX_KEY_BYTES = (1 << 16) - 1
MAX_ARRAY_ITEMS = 1 << 24
"""Array items of a whole file; a vocabulary of 250,000 entries has about a million."""
DEFAULT_ALIGNMENT = 32
MIN_ALIGNMENT = 8
MAX_ALIGNMENT = 1 << 16

_MIN_PAIR_BYTES = 8 + 1 + 4 + 1
"""Key length, a key of one byte, value type, a value of one byte."""
_MIN_TENSOR_BYTES = 8 + 1 + 4 + 8 + 4 + 8
"""Name length, a name of one byte, dimension count, one dimension, type, offset."""


@dataclass(frozen=True, slots=True)
class Header:
    """What a file says about itself.

    Attributes:
        version: GGUF version.
        metadata: Key/value section.
        tensors: Tensor table, by name, in file order.
        alignment: Alignment of tensor data in bytes.
        data_start: Offset of the data section from the start of the file.
    """

    version: int
    metadata: Metadata
    tensors: dict[str, TensorInfo]
    alignment: int
    data_start: int


def parse_header(buffer: memoryview) -> Header:
    """Parse and check header, metadata and tensor table of a whole file.

    Raises:
        GGUFError: anything is damaged, unsupported, or outside the bounds of this module.
    """
    cursor = Cursor(buffer)
    version = _read_version(cursor)
    tensor_count = cursor.uint64("the tensor count")
    pair_count = cursor.uint64("the metadata count")
    _check_count("tensors", tensor_count, MAX_TENSORS, _MIN_TENSOR_BYTES, cursor.remaining)
    _check_count("metadata", pair_count, MAX_METADATA_PAIRS, _MIN_PAIR_BYTES, cursor.remaining)
    metadata = _read_metadata(cursor, pair_count)
    alignment = _alignment(metadata)
    tensors: dict[str, TensorInfo] = {}
    for index in range(tensor_count):
        info = read_tensor_info(cursor, index)
        if info.name in tensors:
            raise GGUFError(f"tensor name {info.name!r} occurs twice; names must be unique")
        tensors[info.name] = info
    data_start = -(-cursor.position // alignment) * alignment
    for info in tensors.values():
        check_extent(info, alignment, max(cursor.end - data_start, 0))
    return Header(version, metadata, tensors, alignment, data_start)


def _read_version(cursor: Cursor) -> int:
    if cursor.end == 0:
        raise GGUFError("file is empty; expected a GGUF file")
    cursor.require(len(MAGIC), "the magic bytes")
    if cursor.buffer[: len(MAGIC)] != MAGIC:
        # What it begins with is not shown: any file of the machine may have been named.
        raise GGUFError(f"file must begin with the magic bytes {MAGIC!r}; it is no GGUF file")
    cursor.position = len(MAGIC)
    version = cursor.uint32("the version")
    if version and version & 0xFFFF == 0:
        raise GGUFError(
            f"big-endian GGUF is not supported (version reads as {version:#010x}); "
            "convert the file to little-endian"
        )
    if version not in VERSIONS:
        raise GGUFError(f"GGUF version must be 2 or 3, found {version}")
    return version


def _check_count(what: str, count: int, limit: int, item_bytes: int, remaining: int) -> None:
    if count > remaining // item_bytes:
        raise GGUFError(
            f"header says {count} {what} entries, but the {remaining} bytes that follow hold "
            f"{remaining // item_bytes} at most; the file is truncated or its header is damaged"
        )
    if count > limit:
        raise GGUFError(f"header says {count} {what} entries; at most {limit} are accepted")


def _read_metadata(cursor: Cursor, count: int) -> Metadata:
    values: dict[str, Scalar | Array] = {}
    item_budget = MAX_ARRAY_ITEMS
    for index in range(count):
        key = cursor.string(MAX_KEY_BYTES, f"metadata key {index}")
        if not key:
            raise GGUFError(f"metadata key {index} is empty")
        if key in values:
            raise GGUFError(f"metadata key {key!r} occurs twice; keys must be unique")
        value = read_value(cursor, f"metadata key {key!r}", item_budget)
        if isinstance(value, Array):
            item_budget -= value.count
        values[key] = value
    return Metadata(values)


def _alignment(metadata: Metadata) -> int:
    alignment = metadata.optional_uint("general.alignment")
    if alignment is None:
        return DEFAULT_ALIGNMENT
    if alignment & (alignment - 1) or not MIN_ALIGNMENT <= alignment <= MAX_ALIGNMENT:
        raise GGUFError(
            f"general.alignment must be a power of two from {MIN_ALIGNMENT} to {MAX_ALIGNMENT}, "
            f"found {alignment}"
        )
    return alignment
