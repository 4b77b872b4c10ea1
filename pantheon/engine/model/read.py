"""From the tensors of a file to device arrays, one tensor at a time."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt8
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
from pantheon.engine.kernels.implementation import Implementation
from pantheon.engine.kernels.packed_matmul import (
    RAW_TYPES,
    InterleavedMatrix,
    aligned,
    format_of,
    interleaved,
    interleaved_shape,
)
from pantheon.engine.model.dequantize import OwnType, PackedType, has_conversion
from pantheon.engine.model.dequantize.int8 import GROUP, quantise_rows, row_bytes
from pantheon.engine.model.packed import (
    PackedMatrix,
    RawMatrix,
    Stack,
    Weight,
    check_parts,
    spans_of,
)
from pantheon.engine.model.sharding import Shards
from pantheon.engine.model.weight_memory import WeightMemory
from pantheon.engine.precision import Precision

FLOAT32_BYTES: Final = 4

_PLAIN: Final = {
    TensorType.F32: np.dtype("<f4"),
    TensorType.F16: np.dtype("<f2"),
    TensorType.BF16: np.dtype(jnp.bfloat16),
}

_SMALLEST_QUANTISED: Final = 128
"""Rows and columns that a matrix must have for `quantize` to pack it. Smaller ones, such as the
gates of recurrent layers, weigh little and decide much."""

_SPARE_BYTES: Final = 64 << 20
"""Of address space, for the fuller blocks of small files."""

_CHUNK_VALUES: Final = 1 << 18
"""Values that are quantised at a time."""


class WeightReader:
    """Puts the tensors of a file on the default device, and knows which were asked for.

    A matrix is copied from the map to the device as the file packs it, or as INT8, laid out for
    the native kernels where they have a format for it, or named as one that the kernels for GPUs
    read: beside what is held, a load takes no
    more than one tensor. Vectors and small arrays become float32. Every method raises GGUFError
    where the tensor is missing, has another shape, or a type without a conversion.
    """

    def __init__(
        self,
        file: GGUFFile,
        *,
        quantize: bool = False,
        implementation: Implementation = Implementation.XLA,
        precision: Precision = Precision.DEFAULT,
        shards: Shards | None = None,
    ) -> None:
        """Read nothing yet.

        Args:
            quantize: make INT8 of the matrices that `is_quantised` names.
            implementation: whose products matrices are laid out for.
            precision: in which kernels multiply them.
            shards: the dies on which `read_parameters` puts what is read, layer by layer; None
                leaves it on the default device.
        """
        self.file = file
        self.shards = shards
        self._quantize = quantize
        self._implementation = implementation
        self._precision = precision
        native = implementation is Implementation.NATIVE
        self._memory = _memory_of(file, quantize) if native else None
        self._unread = set(file.tensors)

    def __contains__(self, name: object) -> bool:
        """Whether the file has the tensor."""
        return name in self.file.tensors

    def weight(self, name: str, rows: int, columns: int, *, apart: bool = False) -> Weight:
        """A matrix of `rows` outputs and `columns` inputs.

        Args:
            apart: in memory of its own; others lie together, see `memory`.
        """
        return self._matrix(self._packed(self._tensor(name, (rows, columns))), apart=apart)

    def parts(self, name: str, sizes: tuple[int, ...], columns: int) -> tuple[Weight, ...]:
        """A fused matrix as its parts, `sizes` rows each."""
        packed = self._packed(self._tensor(name, (sum(sizes), columns)))
        check_parts(len(packed.rows), sizes)
        return tuple(
            self._matrix(replace(packed, rows=packed.rows[span])) for span in spans_of(sizes)
        )

    def rows_at(
        self, name: str, orders: tuple[Int[np.ndarray, " _rows"], ...], columns: int
    ) -> tuple[Weight, ...]:
        """Matrices of some rows each of one matrix; every row is in one of them."""
        total = sum(len(order) for order in orders)
        packed = self._packed(self._tensor(name, (total, columns)))
        return tuple(self._matrix(replace(packed, rows=packed.rows[order])) for order in orders)

    def stack(self, name: str, experts: int, rows: int, columns: int) -> Stack:
        """A stack of matrices, one an expert, as the file packs it or as INT8."""
        packed = self._packed(self._tensor(name, (experts, rows, columns)))
        return self._on_device(packed)

    def vector(self, name: str, size: int) -> Float[Array, " size"]:
        """A vector in float32."""
        return self.array(name, size)

    def array(self, name: str, *shape: int) -> jax.Array:
        """A small tensor of any shape in float32, such as the kernel of a convolution."""
        return jnp.asarray(dequantize(self._tensor(name, shape)))

    def memory(self) -> UInt8[Array, " bytes"] | None:
        """All matrices so far that lie together, as one array; None where none do."""
        return None if self._memory is None else self._memory.array()

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

    def _packed(self, tensor: Tensor) -> _Packed:
        columns = tensor.shape[-1]
        if self._quantize and is_quantised(tensor):
            return _Packed(OwnType.INT8, _quantised(tensor), columns, ours=True)
        if tensor.type not in _PLAIN and not has_conversion(tensor.type):
            raise GGUFError(
                f"tensor {tensor.name!r} is of type {tensor.type.name}, from which there is no "
                "conversion to float32"
            )
        return _Packed(tensor.type, tensor.packed, columns, ours=False)

    def _matrix(self, packed: _Packed, *, apart: bool = False) -> Weight:
        native = self._implementation is Implementation.NATIVE
        if native and format_of(packed.type.name, packed.columns) is not None:
            memory = None if apart else self._memory
            return native_matrix(packed.type, packed.rows, packed.columns, self._precision, memory)
        return self._on_device(packed)

    def _on_device(self, packed: _Packed) -> Float[Array, "*_shape"] | PackedMatrix:
        held = packed.on_device()
        if (
            self._implementation.is_gpu
            and isinstance(held, PackedMatrix)
            and held.type.name in RAW_TYPES
        ):
            return RawMatrix(held.data, held.type, held.columns, self._precision)
        return held


def native_matrix(
    type: PackedType,
    rows: UInt8[np.ndarray, "rows row_bytes"],
    columns: int,
    precision: Precision = Precision.DEFAULT,
    memory: WeightMemory | None = None,
) -> InterleavedMatrix:
    """Packed rows laid out for the native kernels.

    Args:
        memory: where they are put; None for memory of their own.

    Raises:
        ValueError: those have no format for them.
    """
    format = format_of(type.name, columns)
    if format is None:
        raise ValueError(f"expected a format for {columns} columns of {type.name}, there is none")
    shape = interleaved_shape(format, len(rows), columns)
    out, begin = (memory or WeightMemory(math.prod(shape))).take(*shape)
    data = jax.device_put(interleaved(type.name, rows, columns, out))
    offset = None if memory is None else begin
    return InterleavedMatrix(data, format, len(rows), columns, precision, offset)


def _memory_of(file: GGUFFile, quantize: bool) -> WeightMemory:
    """Enough for all matrices of a file, also where their parts end in blocks that are not full."""
    matrices = (one for one in file.tensors.values() if len(one.shape) == 2)
    held = sum(held_size(one, quantize=quantize, native=True) for one in matrices)
    return WeightMemory(held + held // 16 + _SPARE_BYTES)


@dataclass(frozen=True, slots=True)
class _Packed:
    """Rows of a matrix, or of a stack, on the host.

    Attributes:
        rows: uint8 [*stack, rows, bytes of a row].
        columns: values of a row.
        ours: whether the array is our own; else it is a view of the mapped file.
    """

    type: PackedType
    rows: NDArray[np.uint8]
    columns: int
    ours: bool

    def on_device(self) -> Float[Array, "*_shape"] | PackedMatrix:
        """As they are packed."""
        if isinstance(self.type, TensorType) and self.type in _PLAIN:
            # Copied, never aliased: the map goes when the load ends.
            return jnp.array(self.rows.view(_PLAIN[self.type]), copy=True)
        data = jax.device_put(self.rows) if self.ours else jnp.array(self.rows, copy=True)
        return PackedMatrix(data, self.type, self.columns)


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


def held_size(info: TensorInfo, *, quantize: bool, native: bool) -> int:
    """Bytes that a tensor takes on the device."""
    rows, columns = math.prod(info.shape[:-1]), info.shape[-1]
    if len(info.shape) == 1:
        return columns * FLOAT32_BYTES
    becomes_int8 = quantize and is_quantised(info)
    if native and len(info.shape) == 2:
        format = format_of(OwnType.INT8.name if becomes_int8 else info.type.name, columns)
        if format is not None:
            return format.held_bytes(rows, columns)
    return rows * row_bytes(columns) if becomes_int8 else info.size


def held_bytes(tree: object) -> int:
    """Bytes of the arrays of a tree; see `bytes_by_device`."""
    return sum(bytes_by_device(tree).values())


def bytes_by_device(tree: object) -> Counter[Any]:
    """Bytes of the arrays of a tree on each device; memory that several of them share counts once.

    Devices of other hosts cannot be asked: there each array counts, once, by its layout.
    """
    spans: dict[Any, list[tuple[int, int]]] = {}
    elsewhere: Counter[Any] = Counter()
    for array in {id(leaf): leaf for leaf in jax.tree.leaves(tree)}.values():
        remote = array.sharding.device_set - array.sharding.addressable_devices
        size = math.prod(array.sharding.shard_shape(array.shape)) * array.dtype.itemsize
        elsewhere.update(dict.fromkeys(remote, size))
        for shard in array.addressable_shards:
            begin = shard.data.unsafe_buffer_pointer()
            spans.setdefault(shard.device, []).append((begin, shard.data.nbytes))
    return elsewhere + Counter({device: _covered(found) for device, found in spans.items()})


def _covered(spans: list[tuple[int, int]]) -> int:
    total = end = 0
    for begin, size in sorted(spans):
        total += max(begin + size - max(begin, end), 0)
        end = max(end, begin + size)
    return total


def _quantised(tensor: Tensor) -> NDArray[np.uint8]:
    """A tensor as INT8, some rows at a time."""
    columns = tensor.shape[-1]
    rows = tensor.packed.reshape(-1, tensor.packed.shape[-1])
    packed = aligned(len(rows), row_bytes(columns))
    step = max(_CHUNK_VALUES // columns, 1)
    for first in range(0, len(rows), step):
        part = rows[first : first + step]
        values = unpack_blocks(part.reshape(-1), tensor.type).reshape(-1, columns)
        packed[first : first + step] = quantise_rows(values)
    return packed.reshape(*tensor.shape[:-1], -1)
