"""Planes of the interleaved layout: one entry for each of 32 rows side by side.

Codes come as uint8 [rows, steps, 32], `rows` being whole blocks, in the order of their columns;
planes go as uint8 [blocks, steps, bytes], where codes have other places: the second and the third
eight change theirs (see `native/layout.h`). Everything is done in as few and as long loops as numpy
allows: where it is used, a load of a model waits for it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pantheon.engine.kernels.packed_matmul.formats import BLOCK_ROWS

Bytes = NDArray[np.uint8]

_PLACES: Final = (0, 2, 1, 3)
"""The eights of columns of a step in the order of their places."""

_UNITS: Final = {1: "u1", 2: "<u2", 4: "<u4"}


def fields(codes: Bytes, bits: int) -> Bytes:
    """Codes of 2, 4 or 8 bits: that of place j * bits + i is field j of word i."""
    rows, steps, columns = codes.shape
    # The codes of one field, one for each word, are a unit; units that share their bytes are
    # joined, and then the bytes of each word brought together.
    unit = np.dtype(f"<u{bits}")
    in_byte = 8 // bits
    units = _placed(codes).view(unit).reshape(rows, steps, -1)
    joined = units[..., ::in_byte].copy()
    for place in range(1, in_byte):
        joined |= units[..., place::in_byte] << unit.type(bits * place)
    words = joined.view(np.uint8).reshape(rows, steps, 4, columns * bits // 32)
    return byte_plane(words.swapaxes(-1, -2).reshape(rows, steps, -1), 4)


def nibbles(codes: Bytes) -> Bytes:
    """Codes of four bits: place 8 * j + 4 * h + i is at bit 8 * j + 4 * h of word i."""
    return fields(codes, 4)


def odd_bits(codes: Bytes, bits: int) -> Bytes:
    """Codes of 3 or 5 bits: those of 16 places share so many halves of words (see `codes.h`)."""
    rows, steps, _ = codes.shape
    place = _placed(codes).view(np.uint8).reshape(rows, steps, 2, 16)
    whole = 15 // bits
    words = np.empty((rows, steps, bits, 2), np.dtype("<u2"))
    for index in range(bits):
        word = (place[..., 15] >> np.uint8(index)).astype(np.uint16)
        for code in reversed(range(index * whole, (index + 1) * whole)):
            word <<= np.uint16(bits)
            word |= place[..., code]
        words[..., index, :] = word
    return byte_plane(words.view(np.uint8).reshape(rows, steps, -1), 4)


def six_bits(codes: Bytes) -> Bytes:
    """Codes of six bits: those of eight places share three halves of words (see `codes.h`)."""
    rows, steps, _ = codes.shape
    eight = _placed(codes)
    # Two codes to 16 bits, and then what the fourth has spread over the others.
    joined = eight & np.uint64(0x003F003F003F003F)
    joined |= (eight >> np.uint64(2)) & np.uint64(0x0FC00FC00FC00FC0)
    for shift, place in ((36, 0xF000), (28, 0xF << 28), (8, 3 << 44), (14, 3 << 46)):
        joined |= (eight >> np.uint64(shift)) & np.uint64(place)
    halves = joined.view("<u2").reshape(rows, steps, 2, 2, 4)[..., :3]
    words = halves.transpose(0, 1, 3, 4, 2).copy()
    return byte_plane(words.view(np.uint8).reshape(rows, steps, -1), 4)


def _placed(codes: Bytes) -> NDArray[np.uint64]:
    """Eights of codes [rows, steps, 4] in the order of their places."""
    eights = np.ascontiguousarray(codes).view("<u8")
    return np.take(eights, _PLACES, axis=-1)


def half_plane(halves: Bytes) -> Bytes:
    """A float16 for each row and step: uint8 [rows, steps, 2]."""
    return byte_plane(halves, 2)


def byte_plane(entries: Bytes, size: int) -> Bytes:
    """Entries of `size` bytes; where there are several for a step, planes one after another."""
    rows, steps, total = entries.shape
    units = np.ascontiguousarray(entries).view(_UNITS[size])
    split = units.reshape(rows // BLOCK_ROWS, BLOCK_ROWS, steps, total // size)
    moved = np.ascontiguousarray(split.transpose(0, 2, 3, 1))
    return moved.view(np.uint8).reshape(rows // BLOCK_ROWS, steps, total * BLOCK_ROWS)
