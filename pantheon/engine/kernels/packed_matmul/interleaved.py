"""A matrix in the interleaved layout, as an argument of compiled programs."""

from __future__ import annotations

from dataclasses import dataclass

import jax
from jaxtyping import Array, UInt8

from pantheon.engine.kernels.packed_matmul.formats import Format
from pantheon.engine.precision import Precision


@dataclass(frozen=True, slots=True)
class InterleavedMatrix:
    """A matrix that the native kernels read. A pytree of one array.

    Attributes:
        data: the blocks of 32 rows.
        format: how the values are packed.
        rows, columns: of the matrix: outputs and inputs.
        precision: in which its products are computed.
        offset: where `data` begins in the memory of all layers, in bytes; None where it lies
            elsewhere.
    """

    data: UInt8[Array, "blocks block_bytes"]
    format: Format
    rows: int
    columns: int
    precision: Precision = Precision.DEFAULT
    offset: int | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the values."""
        return self.rows, self.columns


_Static = tuple[Format, int, int, Precision, int | None]


def _flatten(matrix: InterleavedMatrix) -> tuple[tuple[object], _Static]:
    static = (matrix.format, matrix.rows, matrix.columns, matrix.precision, matrix.offset)
    return (matrix.data,), static


def _unflatten(static: _Static, leaves: tuple[object]) -> InterleavedMatrix:
    """JAX may have put something else in the array's place, which the constructor would refuse."""
    matrix = object.__new__(InterleavedMatrix)
    names = ("data", "format", "rows", "columns", "precision", "offset")
    for name, value in zip(names, (*leaves, *static), strict=True):
        object.__setattr__(matrix, name, value)
    return matrix


jax.tree_util.register_pytree_node(InterleavedMatrix, _flatten, _unflatten)
