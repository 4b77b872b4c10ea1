"""Tensors of a GGUF file: where they lie, and their packed bytes as a view of the mapped file."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pantheon.engine.gguf.cursor import Cursor
from pantheon.engine.gguf.errors import GGUFError
from pantheon.engine.gguf.tensor_types import TensorType, block_layout, tensor_type

MAX_DIMENSIONS = 4
MAX_NAME_BYTES = 64


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One entry of the tensor table.

    Attributes:
        name: Unique in the file.
        type: ggml type of the packed values.
        shape: Logical shape in row-major order, rows last in the file first here: a weight of
            `ne = [inputs, outputs]` in GGUF terms has shape (outputs, inputs).
        offset: Bytes from the start of the data section.
        row_bytes: Packed bytes of one row (the last axis of `shape`).
        size: Packed bytes of the tensor.
    """

    name: str
    type: TensorType
    shape: tuple[int, ...]
    offset: int
    row_bytes: int
    size: int


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor's packed bytes, not copied: `packed` is a read-only view of the mapped file.

    Attributes:
        name: Name in the file.
        type: ggml type of `packed`.
        shape: Logical shape, row-major.
        packed: uint8 [*shape[:-1], bytes per row].
    """

    name: str
    type: TensorType
    shape: tuple[int, ...]
    packed: NDArray[np.uint8]


def read_tensor_info(cursor: Cursor, index: int) -> TensorInfo:
    """Read one entry of the tensor table.

    Raises:
        GGUFError: empty or overlong name, other than 1 to 4 dimensions, a zero dimension, an
            unknown type, a row that is not a whole number of blocks, or the file ends first.
    """
    name = cursor.string(MAX_NAME_BYTES, f"the name of tensor {index}")
    if not name:
        raise GGUFError(f"tensor {index} has an empty name")
    what = f"tensor {name!r}"
    count = cursor.uint32(f"the dimension count of {what}")
    if not 1 <= count <= MAX_DIMENSIONS:
        raise GGUFError(f"{what} must have 1 to {MAX_DIMENSIONS} dimensions, found {count}")
    extents = [cursor.uint64(f"the dimensions of {what}") for _ in range(count)]
    if 0 in extents:
        raise GGUFError(f"{what} has a zero dimension: {extents}")
    found = tensor_type(cursor.uint32(f"the type of {what}"), name)
    offset = cursor.uint64(f"the offset of {what}")
    block_values, block_bytes = block_layout(found)
    if extents[0] % block_values:
        raise GGUFError(
            f"{what} of type {found.name} must have rows of whole blocks of {block_values} "
            f"values, found rows of {extents[0]}"
        )
    row_bytes = extents[0] // block_values * block_bytes
    size = row_bytes
    for extent in extents[1:]:
        size *= extent
    return TensorInfo(name, found, tuple(reversed(extents)), offset, row_bytes, size)


def check_extent(info: TensorInfo, alignment: int, data_size: int) -> None:
    """Raise GGUFError unless the tensor starts aligned and lies inside the data section.

    Args:
        info: The tensor.
        alignment: Alignment of the file in bytes.
        data_size: Bytes from the start of the data section to the end of the file.
    """
    if info.offset % alignment:
        raise GGUFError(
            f"tensor {info.name!r} must start at a multiple of {alignment} bytes, "
            f"its offset is {info.offset}"
        )
    if info.offset > data_size or info.size > data_size - info.offset:
        raise GGUFError(
            f"tensor {info.name!r} does not lie inside the file: offset {info.offset} and size "
            f"{info.size} in a data section of {data_size} bytes; the file is truncated or its "
            "tensor table is damaged"
        )
