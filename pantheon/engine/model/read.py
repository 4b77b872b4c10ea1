"""From the tensors of a file to device arrays, one tensor at a time."""

from __future__ import annotations

import math
from typing import Final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from pantheon.engine.gguf import (
    GGUFError,
    GGUFFile,
    Tensor,
    TensorInfo,
    TensorType,
    dequantize,
    unpack_blocks,
)
from pantheon.engine.model.dequantize import OwnType, has_conversion
from pantheon.engine.model.dequantize.int8 import GROUP, quantise_rows, row_bytes
from pantheon.engine.model.packed import PackedMatrix, Stack, Weight

FLOAT32_BYTES: Final = 4

_PLAIN: Final = {
    TensorType.F32: np.dtype("<f4"),
    TensorType.F16: np.dtype("<f2"),
    TensorType.BF16: np.dtype(jnp.bfloat16),
}

_SMALLEST_QUANTISED: Final = 128
"""Rows and columns that a matrix must have for `quantize` to pack it. Smaller ones, such as the
gates of recurrent layers, weigh little and decide much."""

_ALIGNMENT: Final = 64
"""Bytes; what XLA asks of an array on a CPU."""

_CHUNK_VALUES: Final = 1 << 18
"""Values that are quantised at a time."""


class WeightReader:
    """Puts the tensors of a file on the default device, and knows which were asked for.

    A matrix is copied from the map to the device as the file packs it, or as INT8: beside what is
    held, a load takes no more than one tensor. Vectors and small arrays become float32. Every
    method raises GGUFError where the tensor is missing, has another shape, or a type without a
    conversion.
    """

    def __init__(self, file: GGUFFile, *, quantize: bool = False) -> None:
        """Read nothing yet.

        Args:
            quantize: make INT8 of the matrices that `is_quantised` names.
        """
        self.file = file
        self._quantize = quantize
        self._unread = set(file.tensors)

    def __contains__(self, name: object) -> bool:
        """Whether the file has the tensor."""
        return name in self.file.tensors

    def weight(self, name: str, rows: int, columns: int) -> Weight:
        """A matrix of `rows` outputs and `columns` inputs, as the file packs it or as INT8."""
        return self._matrices(self._tensor(name, (rows, columns)))

    def stack(self, name: str, experts: int, rows: int, columns: int) -> Stack:
        """A stack of matrices, one an expert, as the file packs it or as INT8."""
        return self._matrices(self._tensor(name, (experts, rows, columns)))

    def vector(self, name: str, size: int) -> Float[Array, " size"]:
        """A vector in float32."""
        return self.array(name, size)

    def array(self, name: str, *shape: int) -> jax.Array:
        """A small tensor of any shape in float32, such as the kernel of a convolution."""
        return jnp.asarray(dequantize(self._tensor(name, shape)))

    def pass_over(self, name: str) -> None:
        """Count a tensor as known though nothing is made of it, where the file has it."""
        self._unread.discard(name)

    def check_all_read(self) -> None:
        """Refuse a file with tensors that nothing asked for: its answers would be wrong.

        Raises:
            GGUFError: there are some.
        """
        if self._unread:
            raise GGUFError(
                f"every tensor of a {self.file.architecture} file must be known, or its answers "
                f"would be wrong; {len(self._unread)} are not, {min(self._unread)!r} among them"
            )

    def _tensor(self, name: str, shape: tuple[int, ...]) -> Tensor:
        self._unread.discard(name)
        return self.file.tensor(name, shape)

    def _matrices(self, tensor: Tensor) -> Weight | Stack:
        if self._quantize and is_quantised(tensor):
            return PackedMatrix(jnp.asarray(_quantised(tensor)), OwnType.INT8, tensor.shape[-1])
        plain = _PLAIN.get(tensor.type)
        # Copied, never aliased: the map goes when the load ends.
        if plain is not None:
            return jnp.array(tensor.packed.view(plain), copy=True)
        if not has_conversion(tensor.type):
            raise GGUFError(
                f"tensor {tensor.name!r} is of type {tensor.type.name}, from which there is no "
                "conversion to float32"
            )
        return PackedMatrix(jnp.array(tensor.packed, copy=True), tensor.type, tensor.shape[-1])


def is_quantised(tensor: Tensor | TensorInfo) -> bool:
    """Whether `quantize` makes INT8 of a matrix or a stack.

    Only of what is float32, float16 or bfloat16: every packed type but Q8_0 is smaller than INT8
    already, and that one is as large.
    """
    return (
        tensor.type in _PLAIN
        and len(tensor.shape) > 1
        and min(tensor.shape[-2:]) >= _SMALLEST_QUANTISED
        and tensor.shape[-1] % GROUP == 0
    )


def held_size(info: TensorInfo, *, quantize: bool) -> int:
    """Bytes that a tensor takes on the device."""
    if len(info.shape) == 1:
        return info.shape[0] * FLOAT32_BYTES
    if quantize and is_quantised(info):
        return math.prod(info.shape[:-1]) * row_bytes(info.shape[-1])
    return info.size


def held_bytes(tree: object) -> int:
    """Bytes of the distinct arrays of a tree; an array that is used twice counts once."""
    arrays = {id(leaf): leaf.nbytes for leaf in jax.tree.leaves(tree)}
    return sum(arrays.values())


def _quantised(tensor: Tensor) -> NDArray[np.uint8]:
    """A tensor as INT8, some rows at a time."""
    columns = tensor.shape[-1]
    rows = tensor.packed.reshape(-1, tensor.packed.shape[-1])
    packed = _aligned(len(rows), row_bytes(columns))
    step = max(_CHUNK_VALUES // columns, 1)
    for first in range(0, len(rows), step):
        part = rows[first : first + step]
        values = unpack_blocks(part.reshape(-1), tensor.type).reshape(-1, columns)
        packed[first : first + step] = quantise_rows(values)
    return packed.reshape(*tensor.shape[:-1], -1)


def _aligned(rows: int, columns: int) -> NDArray[np.uint8]:
    """An array that XLA takes over as it is. It copies others, and holds both for a while."""
    memory = np.empty(rows * columns + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + rows * columns].reshape(rows, columns)
