"""Many activation rows times a matrix of raw blocks, in Triton: a part of some blocks at a time is
unpacked in registers and multiplied by the tensor cores, which add up in float32.

The weights are the left factor, so that they need not go through shared memory where the tensor
cores take it from registers (Hopper). A row's result does not depend on the others: tiles have one
size whatever their number.
"""

from __future__ import annotations

import triton
import triton.language as tl

from pantheon.engine.kernels.packed_matmul.triton_blocks import values_of_part


@triton.jit
def gemm(
    x,
    data,
    out,
    ROWS: tl.constexpr,
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
    """`x` [ROWS, columns] times `data` [OUTPUTS, BLOCKS * SIZE] uint8: `out` [ROWS, OUTPUTS].

    Args:
        DOT_TYPE: what both factors are rounded to; float32 is multiplied as it is.
        OUTPUT_TILE, ROW_TILE: rows of the matrix and of activations that a program has.
        BLOCK_TILE: blocks of each row of the matrix at a time.
    """
    first = tl.program_id(1) * OUTPUT_TILE
    at = data + tl.cast(first, tl.int64) * (BLOCKS * SIZE)
    row = tl.program_id(0) * ROW_TILE + tl.arange(0, ROW_TILE)
    there = row < ROWS
    place = x + row.to(tl.int64) * (BLOCKS * PARTS * UNITS * 16)
    # Rows of the matrix past the end read the last one and write nothing.
    output = tl.minimum(tl.arange(0, OUTPUT_TILE), OUTPUTS - 1 - first)
    sums = product_of_tiles(
        place, there, at, output, BLOCKS, TYPE, SIZE, PARTS, UNITS, DOT_TYPE, BLOCK_TILE
    )
    output = first + tl.arange(0, OUTPUT_TILE)
    target = out + row.to(tl.int64)[None, :] * OUTPUTS + output[:, None]
    tl.store(target, sums, mask=there[None, :] & (output < OUTPUTS)[:, None])


@triton.jit
def product_of_tiles(
    place,
    there,
    at,
    output,
    BLOCKS: tl.constexpr,
    TYPE: tl.constexpr,
    SIZE: tl.constexpr,
    PARTS: tl.constexpr,
    UNITS: tl.constexpr,
    DOT_TYPE: tl.constexpr,
    BLOCK_TILE: tl.constexpr,
):
    """Sums [outputs, rows] in float32, over all columns.

    Args:
        place: pointers to the first value of each activation row.
        there: which of those rows are read; the others count as zeros.
        at: pointer to the first block of a matrix.
        output: rows of it.
    """
    PART_VALUES: tl.constexpr = UNITS * 16
    VALUES: tl.constexpr = PARTS * PART_VALUES
    COLUMNS: tl.constexpr = BLOCK_TILE * PART_VALUES
    outputs: tl.constexpr = output.shape[0]
    block = tl.arange(0, BLOCK_TILE)[None, :, None, None]
    at += output[:, None, None, None] * (BLOCKS * SIZE) + block * SIZE
    number = tl.arange(0, COLUMNS)
    column = number // PART_VALUES * VALUES + number % PART_VALUES
    places = place[None, :] + column[:, None]
    sums = tl.zeros((outputs, place.shape[0]), tl.float32)
    for step in tl.range(0, BLOCKS, BLOCK_TILE):
        live = block < BLOCKS - step
        seen_live = there[None, :] & (column < (BLOCKS - step) * VALUES)[:, None]
        for part in tl.static_range(PARTS):
            weights = values_of_part(at + step * SIZE, live, part, TYPE).to(DOT_TYPE)
            weights = tl.reshape(weights, (outputs, COLUMNS))
            seen = tl.load(places + step * VALUES + part * PART_VALUES, mask=seen_live, other=0.0)
            sums = tl.dot(weights, seen.to(DOT_TYPE), sums, input_precision="ieee")
    return sums
