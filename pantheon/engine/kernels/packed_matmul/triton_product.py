"""Products with matrices that stay as their file packs them, on a GPU.

Needs Triton and jax-triton, so that it is imported only where a step is made for a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import jax
import jax.numpy as jnp
import triton.language as tl
from jaxtyping import Array, Float, Float32, UInt8

from pantheon.engine.kernels.packed_matmul.raw_types import RawType, raw_type
from pantheon.engine.kernels.packed_matmul.triton_gemm import gemm
from pantheon.engine.kernels.packed_matmul.triton_gemv import gemv
from pantheon.engine.kernels.triton_launch import TritonLaunch

MOST_FEW: Final = 8
"""Activation rows up to which they are multiplied one by one: those of a decode step."""

DOT_TYPES: Final[Mapping[str, Any]] = MappingProxyType(
    {"bfloat16": tl.bfloat16, "float16": tl.float16, "float32": tl.float32}
)
"""What activations may be; weights are rounded to the same before the tensor cores take them."""


@dataclass(frozen=True, slots=True)
class FewRowTiles:
    """How a program of `gemv` is cut; chosen so that nothing spills and layouts need no exchange
    between threads: a load of fewer values than threads takes the layout of the weights.

    Attributes:
        outputs: rows of the matrix.
        columns: of each at a time.
        warps: of a program.
    """

    outputs: int = 16
    columns: int = 128
    warps: int = 8


@dataclass(frozen=True, slots=True)
class ManyRowTiles:
    """How a program of `gemm` is cut.

    Attributes:
        outputs: rows of the matrix; 64 is the least that Hopper's tensor cores take.
        rows: of activations.
        columns: at most so many at a time.
        warps: of a program.
        stages: passes of the loop in flight.
    """

    outputs: int = 64
    rows: int = 64
    columns: int = 64
    warps: int = 4
    stages: int = 2

    def blocks(self, kind: RawType) -> int:
        """Blocks of a row at a time."""
        return max(1, self.columns // (kind.units * 16 * kind.parts))


_FEW_ROWS: Final = FewRowTiles()
_MANY_ROWS: Final = ManyRowTiles()


def raw_product(
    x: Float[Array, "rows columns"],
    data: UInt8[Array, "outputs row_bytes"],
    type: str,
    capability: int | None = None,
) -> Float32[Array, "rows outputs"]:
    """`x` times the transpose of a matrix of raw blocks, added up in float32.

    Up to `MOST_FEW` rows are multiplied in float32. More are multiplied by the tensor cores, with
    weights rounded to the type of `x`.

    Args:
        x: bfloat16, float16 or float32.
        data: the rows of the matrix as a GGUF file has them.
        type: how they are packed, named as in ggml; one of `RAW_TYPES`.
        capability: of the GPU, 90 for Hopper; None asks the machine's.

    Raises:
        ValueError: shapes or types that do not fit.
    """
    launch = product_launch(x.shape, x.dtype.name, data.shape, type)
    out = jax.ShapeDtypeStruct((x.shape[0], data.shape[0]), jnp.float32)  # type: ignore[no-untyped-call]
    return launch(x, data, out=out, capability=capability)


def product_launch(
    x_shape: tuple[int, ...],
    x_type: str,
    data_shape: tuple[int, ...],
    type: str,
    few: FewRowTiles = _FEW_ROWS,
    many: ManyRowTiles = _MANY_ROWS,
) -> TritonLaunch:
    """The launch behind `raw_product`, which takes `x`, the matrix and the product.

    Raises:
        ValueError: shapes or types that do not fit.
    """
    kind = raw_type(type)
    dot_type = checked_dot_type(x_type)
    (rows, columns), (outputs, row_bytes) = x_shape, data_shape
    blocks = kind.blocks_of(row_bytes)
    if columns != blocks * kind.values:
        raise ValueError(f"x: expected {blocks * kind.values} columns, got {columns}")
    constants = {"ROWS": rows, "OUTPUTS": outputs} | block_constants(kind, type, blocks)
    if rows <= MOST_FEW:
        tiles = {"OUTPUT_TILE": few.outputs, "BLOCK_TILE": few.columns // (kind.units * 16)}
        programs = -(-outputs // few.outputs)
        return TritonLaunch(gemv, (programs,), constants | tiles, few.warps, 1)
    tiles = {"OUTPUT_TILE": many.outputs, "ROW_TILE": many.rows, "BLOCK_TILE": many.blocks(kind)}
    grid = (-(-rows // many.rows), -(-outputs // many.outputs))
    constants |= tiles | {"DOT_TYPE": dot_type}
    return TritonLaunch(gemm, grid, constants, many.warps, many.stages)


def checked_dot_type(x_type: str) -> Any:
    """Triton's type of activations by its name in JAX.

    Raises:
        ValueError: the kernels do not multiply it.
    """
    if x_type not in DOT_TYPES:
        raise ValueError(f"x: expected one of {', '.join(DOT_TYPES)}, got {x_type}")
    return DOT_TYPES[x_type]


def block_constants(kind: RawType, type: str, blocks: int) -> dict[str, Any]:
    """What every kernel is told of a matrix's rows."""
    return {
        "BLOCKS": blocks,
        "TYPE": type,
        "SIZE": kind.size,
        "PARTS": kind.parts,
        "UNITS": kind.units,
    }
