"""Weights as device memory holds them."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from itertools import accumulate
from typing import TypeAlias, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, UInt8

from pantheon.engine.kernels.packed_matmul import InterleavedMatrix, taken_rows
from pantheon.engine.model.dequantize import PackedType, dequantize
from pantheon.engine.model.split import SplitMatrix, rows_across_dies
from pantheon.engine.precision import Precision


@dataclass(frozen=True, slots=True)
class PackedMatrix:
    """A matrix, or a stack of matrices, as its file packs it or as INT8. A pytree of one array.

    Attributes:
        data: the packed rows; a row of the matrix is an output, as GGUF has it.
        type: how they are packed.
        columns: values of a row.
    """

    data: UInt8[Array, "*stack rows row_bytes"]
    type: PackedType
    columns: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the values: (*stack, rows, columns)."""
        return (*self.data.shape[:-1], self.columns)


@dataclass(frozen=True, slots=True)
class RawMatrix(PackedMatrix):
    """One whose blocks the kernels for GPUs read as the file has them.

    Attributes:
        precision: in which its products are computed.
    """

    precision: Precision = Precision.DEFAULT


_MatrixT = TypeVar("_MatrixT", bound=PackedMatrix)


def _register(kind: type[_MatrixT]) -> None:
    """Make a pytree of a class, whose first field is its only array."""
    names = [field.name for field in fields(kind)]

    def flatten(matrix: _MatrixT) -> tuple[tuple[object], tuple[object, ...]]:
        return (matrix.data,), tuple(getattr(matrix, name) for name in names[1:])

    def unflatten(static: tuple[object, ...], leaves: tuple[object]) -> _MatrixT:
        # JAX may have put something else in the array's place, which the constructor would refuse.
        matrix = object.__new__(kind)
        for name, value in zip(names, (*leaves, *static), strict=True):
            object.__setattr__(matrix, name, value)
        return matrix

    jax.tree_util.register_pytree_node(kind, flatten, unflatten)


_register(PackedMatrix)
_register(RawMatrix)

Weight: TypeAlias = (
    Float[Array, "_outputs _inputs"] | PackedMatrix | InterleavedMatrix | SplitMatrix
)
"""A matrix: an array of float32, float16 or bfloat16, packed, packed and interleaved for the native
kernels, or divided among dies."""

Stack: TypeAlias = Float[Array, "_experts _outputs _inputs"] | PackedMatrix
"""A stack of matrices."""


def values_of(weight: Weight | Stack) -> Float[Array, "*stack outputs inputs"]:
    """The whole matrix, or stack, in float32."""
    if isinstance(weight, SplitMatrix):
        raise ValueError("values_of: expected a matrix that a die has whole, got part of one")
    if isinstance(weight, InterleavedMatrix):
        return taken_rows(weight, jnp.arange(weight.rows))
    if isinstance(weight, PackedMatrix):
        return dequantize(weight.data, weight.type)
    return weight.astype(jnp.float32)


def rows_of(weight: Weight, rows: Int[Array, "*batch"]) -> Float[Array, "*batch inputs"]:
    """Some rows in float32; nothing else is dequantised."""
    if isinstance(weight, SplitMatrix):
        return rows_across_dies(weight, rows, lambda own: rows_of(weight.matrix, own))
    if isinstance(weight, InterleavedMatrix):
        return taken_rows(weight, rows.reshape(-1)).reshape(*rows.shape, weight.columns)
    if isinstance(weight, PackedMatrix):
        return dequantize(weight.data[rows], weight.type)
    return weight[rows].astype(jnp.float32)


def expert(stack: Stack, index: Int[Array, ""] | int) -> Float[Array, "_ _"] | PackedMatrix:
    """One matrix of a stack, packed as the stack is."""
    if isinstance(stack, PackedMatrix):
        return replace(stack, data=stack.data[index])
    return stack[index]


def split_rows(
    stack: Float[Array, "*stack _outputs inputs"] | PackedMatrix, sizes: tuple[int, ...]
) -> tuple[Float[Array, "*stack _outputs inputs"] | PackedMatrix, ...]:
    """A matrix, or a stack of them, as parts of `sizes` rows each."""
    check_parts(stack.shape[-2], sizes)
    if isinstance(stack, PackedMatrix):
        return tuple(replace(stack, data=stack.data[..., span, :]) for span in spans_of(sizes))
    return tuple(stack[..., span, :] for span in spans_of(sizes))


def spans_of(sizes: tuple[int, ...]) -> list[slice]:
    """Where parts of given sizes lie, one after another."""
    ends = list(accumulate(sizes))
    return [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]


def check_parts(total: int, sizes: tuple[int, ...]) -> None:
    """Refuse parts that are not the whole."""
    if sum(sizes) != total:
        raise ValueError(f"the parts must have {total} rows in all, got {sizes}")
