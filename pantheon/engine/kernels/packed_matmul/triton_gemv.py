"""Few activation rows times a matrix of raw blocks, in Triton: weights are read once, multiplied
in float32 and never kept.

A program has some rows of the matrix. Each thread adds up the same columns in the same order
whatever the number of activation rows, and nothing is fused but what is written so; a row's result
does not depend on the others.
"""

from __future__ import annotations

import triton
import triton.language as tl

from pantheon.engine.kernels.packed_matmul.triton_blocks import values_of_part


@triton.jit
def gemv(
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
    OUTPUT_TILE: tl.constexpr,
    BLOCK_TILE: tl.constexpr,
):
    """`x` [ROWS, columns] times `data` [OUTPUTS, BLOCKS * SIZE] uint8: `out` [ROWS, OUTPUTS].

    Args:
        OUTPUT_TILE, BLOCK_TILE: rows of the matrix, and blocks of each, at a time.
    """
    PART_VALUES: tl.constexpr = UNITS * 16
    VALUES: tl.constexpr = PARTS * PART_VALUES
    COLUMNS: tl.constexpr = BLOCKS * VALUES
    output = tl.program_id(0) * OUTPUT_TILE + tl.arange(0, OUTPUT_TILE)
    # Rows past the end read the last one and write nothing.
    row = tl.minimum(output, OUTPUTS - 1).to(tl.int64)[:, None, None, None]
    block = tl.arange(0, BLOCK_TILE)[None, :, None, None]
    unit = tl.arange(0, UNITS)[None, None, :, None]
    lane = tl.arange(0, 16)[None, None, None, :]
    column = block * VALUES + unit * 16 + lane
    at = data + row * (BLOCKS * SIZE) + block * SIZE
    nothing = tl.zeros((OUTPUT_TILE, BLOCK_TILE, UNITS, 16), tl.float32)
    sums = (nothing,) * ROWS
    for step in tl.range(0, BLOCKS, BLOCK_TILE):
        live = block < BLOCKS - step
        for part in tl.static_range(PARTS):
            weights = values_of_part(at + step * SIZE, live, part, TYPE)
            place = x + step * VALUES + part * PART_VALUES + column
            added = ()
            for number in tl.static_range(ROWS):
                seen = tl.load(place + number * COLUMNS, mask=live, other=0.0).to(tl.float32)
                seen = tl.broadcast_to(seen, weights.shape)
                # Triton has no starred expressions.
                added = added + (tl.fma(weights, seen, sums[number]),)  # noqa: RUF005
            sums = added
    for number in tl.static_range(ROWS):
        whole = tl.sum(tl.reshape(sums[number], (OUTPUT_TILE, BLOCK_TILE * UNITS * 16)), 1)
        tl.store(out + number * OUTPUTS + output, whole, mask=output < OUTPUTS)
