"""Tiles of activation rows times the matrices of their experts, of raw blocks, in Triton."""

from __future__ import annotations

import triton
import triton.language as tl

from pantheon.engine.kernels.packed_matmul.triton_gemm import product_of_tiles


@triton.jit
def grouped(
    x,
    data,
    experts,
    firsts,
    filled,
    sources,
    out,
    OUTPUTS: tl.constexpr,
    BLOCKS: tl.constexpr,
    TYPE: tl.constexpr,
    SIZE: tl.constexpr,
    PARTS: tl.constexpr,
    UNITS: tl.constexpr,
    DOT_TYPE: tl.constexpr,
    OUTPUT_TILE: tl.constexpr,
    ROW_TILE: tl.constexpr,
    BLOCK_TILE: tl.constexpr,
):
    """Rows of `x` [inputs, columns] times matrices of `data` [experts, OUTPUTS, BLOCKS * SIZE]
    uint8: `out` [pairs, OUTPUTS], of which places in no tile are not written.

    Tiles of one expert follow each other along the grid's first axis, so that programs that need
    the same weights run at about the same time.

    Args:
        experts, firsts, filled: int32 [tiles], as in `ExpertTiles`, of at most ROW_TILE places.
        sources: int32 [pairs], the row of `x` that each place takes.
    """
    count = tl.load(filled + tl.program_id(0))
    if count > 0:
        first = tl.load(firsts + tl.program_id(0))
        expert = tl.load(experts + tl.program_id(0)).to(tl.int64)
        number = tl.arange(0, ROW_TILE)
        there = number < count
        source = tl.load(sources + first + number, mask=there, other=0).to(tl.int64)
        place = x + source * (BLOCKS * PARTS * UNITS * 16)
        first_output = tl.program_id(1) * OUTPUT_TILE
        at = data + (expert * OUTPUTS + first_output) * (BLOCKS * SIZE)
        # Rows of the matrix past the end read the last one and write nothing.
        output = tl.minimum(tl.arange(0, OUTPUT_TILE), OUTPUTS - 1 - first_output)
        sums = product_of_tiles(
            place, there, at, output, BLOCKS, TYPE, SIZE, PARTS, UNITS, DOT_TYPE, BLOCK_TILE
        )
        output = first_output + tl.arange(0, OUTPUT_TILE)
        target = out + (first + number).to(tl.int64)[None, :] * OUTPUTS + output[:, None]
        tl.store(target, sums, mask=there[None, :] & (output < OUTPUTS)[:, None])
