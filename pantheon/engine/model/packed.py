"""Matrices that stay packed in device memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt8

from pantheon.engine.model.dequantize import PackedType, dequantize


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


def _flatten(matrix: PackedMatrix) -> tuple[tuple[object], tuple[PackedType, int]]:
    return (matrix.data,), (matrix.type, matrix.columns)


def _unflatten(static: tuple[PackedType, int], leaves: tuple[object]) -> PackedMatrix:
    """JAX may have put something else in the array's place, which the constructor would refuse."""
    matrix = object.__new__(PackedMatrix)
    for name, value in zip(("data", "type", "columns"), (*leaves, *static), strict=True):
        object.__setattr__(matrix, name, value)
    return matrix


jax.tree_util.register_pytree_node(PackedMatrix, _flatten, _unflatten)

Weight: TypeAlias = Float[Array, "_outputs _inputs"] | PackedMatrix
"""A matrix: an array of float32, float16 or bfloat16, or packed."""

Stack: TypeAlias = Float[Array, "_experts _outputs _inputs"] | PackedMatrix
"""A stack of matrices."""


def values_of(weight: Weight) -> Float[Array, "outputs inputs"]:
    """The whole matrix in float32."""
    if isinstance(weight, PackedMatrix):
        return dequantize(weight.data, weight.type)
    return weight.astype(jnp.float32)


def rows_of(weight: Weight, rows: Int[Array, "*batch"]) -> Float[Array, "*batch inputs"]:
    """Some rows in float32; nothing else is dequantised."""
    if isinstance(weight, PackedMatrix):
        return dequantize(weight.data[rows], weight.type)
    return weight[rows].astype(jnp.float32)


def expert(stack: Stack, index: Int[Array, ""] | int) -> Weight:
    """One matrix of a stack, packed as the stack is."""
    if isinstance(stack, PackedMatrix):
        return PackedMatrix(stack.data[index], stack.type, stack.columns)
    return stack[index]


def split_rows(weight: Weight | Stack, sizes: tuple[int, ...]) -> tuple[Weight | Stack, ...]:
    """A fused matrix, or a stack of such, as its parts, `sizes` rows each."""
    total = weight.shape[-2]
    if sum(sizes) != total:
        raise ValueError(f"the parts must have {total} rows in all, got {sizes}")
    ends = [sum(sizes[: index + 1]) for index in range(len(sizes))]
    spans = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    if isinstance(weight, PackedMatrix):
        return tuple(
            PackedMatrix(weight.data[..., span, :], weight.type, weight.columns) for span in spans
        )
    return tuple(weight[..., span, :] for span in spans)


def rows_at(weight: Weight, rows: Int[np.ndarray, " rows"]) -> Weight:
    """A matrix of some rows in another order, packed as the whole is."""
    if isinstance(weight, PackedMatrix):
        return PackedMatrix(weight.data[rows], weight.type, weight.columns)
    return weight[rows]
