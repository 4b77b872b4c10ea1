"""Planes of the interleaved layout: one entry for each of 32 rows side by side.

Codes come as uint8 [rows, steps, 32], `rows` being whole blocks; planes go as uint8
[blocks, steps, bytes].
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pantheon.engine.kernels.packed_matmul.formats import BLOCK_ROWS

Bytes = NDArray[np.uint8]


def fields(codes: Bytes, bits: int) -> Bytes:
    """Codes of `bits` bits: that of column j * bits + i is field j of word i."""
    rows, steps, columns = codes.shape
    split = codes.reshape(rows, steps, columns // bits, bits)
    return _word_planes(split, [bits * field for field in range(columns // bits)])


def nibbles(codes: Bytes) -> Bytes:
    """Codes of four bits: column 8 * j + 4 * h + i is at bit 8 * j + 4 * h of word i."""
    return _word_planes(codes.reshape(*codes.shape[:2], 8, 4), [4 * field for field in range(8)])


def pairs(codes: Bytes) -> Bytes:
    """Codes of two bits: column 8 * j + 4 * u + r is at bit 8 * j + 2 * r of word u."""
    split = codes.reshape(*codes.shape[:2], 4, 2, 4).swapaxes(-1, -2)
    shifts = [8 * field + 2 * place for field in range(4) for place in range(4)]
    return _word_planes(split.reshape(*codes.shape[:2], 16, 2), shifts)


def bits_of_columns(codes: Bytes) -> Bytes:
    """Codes of one bit: that of column c is at bit c."""
    return byte_plane(np.packbits(codes, axis=-1, bitorder="little"), 4)


def half_plane(halves: Bytes) -> Bytes:
    """A float16 for each row and step: uint8 [rows, steps, 2]."""
    return byte_plane(halves, 2)


def byte_plane(entries: Bytes, size: int) -> Bytes:
    """Entries of `size` bytes; where there are several for a step, planes one after another."""
    rows, steps, total = entries.shape
    split = entries.reshape(rows // BLOCK_ROWS, BLOCK_ROWS, steps, total // size, size)
    moved = split.transpose(0, 2, 3, 1, 4)
    return moved.reshape(rows // BLOCK_ROWS, steps, total * BLOCK_ROWS)


def _word_planes(codes: Bytes, shifts: list[int]) -> Bytes:
    """Codes [rows, steps, fields, words], field f shifted to bit `shifts[f]` of its word."""
    words = np.zeros((*codes.shape[:2], codes.shape[3]), "<u4")
    for field, shift in enumerate(shifts):
        words |= codes[:, :, field].astype(np.uint32) << np.uint32(shift)
    return byte_plane(words.view(np.uint8), 4)
