"""The product with stacks of experts' matrices that stay as their file packs them, on a GPU.

Needs Triton and jax-triton, so that it is imported only where a step is made for a GPU.
"""

from __future__ import annotations

from typing import Final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Int, UInt8

from pantheon.engine.kernels.expert_matmul.pairs import ExpertPairs, most_tiles, tiles_of
from pantheon.engine.kernels.expert_matmul.triton_grouped import grouped
from pantheon.engine.kernels.packed_matmul.raw_types import raw_type
from pantheon.engine.kernels.packed_matmul.triton_product import (
    ManyRowTiles,
    block_constants,
    checked_dot_type,
)
from pantheon.engine.kernels.triton_launch import TritonLaunch

FEW: Final = ManyRowTiles(rows=16)
"""For decode steps, where hardly two tokens choose the same expert."""

MANY: Final = ManyRowTiles(rows=32)
"""For chunks of prompts."""


def expert_product(
    x: Float[Array, "inputs columns"],
    data: UInt8[Array, "experts outputs row_bytes"],
    type: str,
    pairs: ExpertPairs,
    sources: Int[Array, " pairs"],
    tiles: ManyRowTiles = FEW,
    capability: int | None = None,
) -> Float32[Array, "pairs outputs"]:
    """What `reference` gives for the values of `data`, added up in float32.

    A row's result depends on `tiles`, so that these must not be chosen by what else there is.

    Args:
        x: bfloat16, float16 or float32; weights are rounded to the same.
        data: the matrices as a GGUF file has them.
        type: how they are packed, named as in ggml; one of `RAW_TYPES`.
        capability: of the GPU, 90 for Hopper; None asks the machine's.

    Raises:
        ValueError: shapes or types that do not fit.
    """
    places, outputs = sources.shape[0], data.shape[1]
    launch = grouped_launch(x.shape, x.dtype.name, data.shape, type, places, tiles)
    cut = tiles_of(pairs, tiles.rows)
    out = jax.ShapeDtypeStruct((places, outputs), jnp.float32)  # type: ignore[no-untyped-call]
    found = launch(x, data, *cut, sources.astype(jnp.int32), out=out, capability=capability)
    # What is in no tile was not written.
    return jnp.where((jnp.arange(places) < jnp.sum(pairs.counts))[:, None], found, 0)


def grouped_launch(
    x_shape: tuple[int, ...],
    x_type: str,
    data_shape: tuple[int, ...],
    type: str,
    places: int,
    tiles: ManyRowTiles,
) -> TritonLaunch:
    """The launch behind `expert_product`, which takes `x`, the stack, the three arrays of the
    tiles, the sources and the product.

    Raises:
        ValueError: shapes or types that do not fit.
    """
    kind = raw_type(type)
    experts, outputs, row_bytes = data_shape
    blocks = kind.blocks_of(row_bytes)
    if x_shape[1] != blocks * kind.values:
        raise ValueError(f"x: expected {blocks * kind.values} columns, got {x_shape[1]}")
    constants = block_constants(kind, type, blocks) | {
        "OUTPUTS": outputs,
        "DOT_TYPE": checked_dot_type(x_type),
        "OUTPUT_TILE": tiles.outputs,
        "ROW_TILE": tiles.rows,
        "BLOCK_TILE": tiles.blocks(kind),
    }
    grid = (most_tiles(places, experts, tiles.rows), -(-outputs // tiles.outputs))
    return TritonLaunch(grouped, grid, constants, tiles.warps, tiles.stages)
