"""From rows as GGUF packs them to the interleaved layout, bit for bit, in numpy.

The native library does the same several times faster (`interleaving`); this is what it is compared
with, and what does it for the types whose codes stand in codebooks and in processes without it.
Nothing is rounded: codes and scales are put elsewhere. Beside the layout, what is made of a
matrix at a time takes a few megabytes for each thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pantheon.engine.kernels.packed_matmul.codebooks import CODEBOOK_TYPES, codes_of
from pantheon.engine.kernels.packed_matmul.formats import BLOCK_ROWS, STEP_COLUMNS, Format
from pantheon.engine.kernels.packed_matmul.planes import (
    byte_plane,
    fields,
    half_plane,
    nibbles,
    odd_bits,
    six_bits,
)

ALIGNMENT: Final = 64
"""Bytes; what XLA asks of an array on a CPU."""

_PART_VALUES: Final = 1 << 18
"""Values that are taken apart at a time."""

_SIGN: Final = np.uint8(128)
"""Turns a signed byte into the same number 128 higher."""

_MAGNITUDE: Final = np.uint8(7)
"""Of a four-bit float; 8 is its sign."""

Packed = NDArray[np.uint8]
Codes = NDArray[np.uint8]

_Parts = tuple[list[Packed], list[Packed]]
"""Planes of the heads [blocks, spans, bytes] and of the steps [blocks, steps, bytes], in order."""


def format_of(source: str, columns: int) -> Format | None:
    """The format that rows of so many columns become; None where there is none for them.

    Args:
        source: the ggml type of the rows, or INT8.
    """
    if source not in _SOURCES:
        return None
    format, _ = _SOURCES[source]
    return format if format.holds(columns) else None


def interleaved_shape(format: Format, rows: int, columns: int) -> tuple[int, int]:
    """Blocks of a matrix, and bytes of a block."""
    return -(-rows // BLOCK_ROWS), format.block_bytes(columns)


def interleaved(source: str, packed: Packed, columns: int, out: Packed | None = None) -> Packed:
    """Rows in blocks of 32.

    Args:
        source: the ggml type of the rows, or INT8; `format_of` has a format for them.
        packed: uint8 [rows, bytes of a row] as the file has it; float types likewise.
        columns: values of a row.
        out: where they are put, of the shape of `interleaved_shape`; None for new memory.

    Returns:
        uint8 [blocks, bytes of a block], aligned as XLA takes arrays over; rows that fill the
        last block up are zeros.
    """
    format, parts_of = _SOURCES[source]
    blocks, block_bytes = interleaved_shape(format, len(packed), columns)
    if out is None:
        out = aligned(blocks, block_bytes)
    step = max(_PART_VALUES // (BLOCK_ROWS * columns), 1)

    def fill(first: int) -> None:
        target = out[first : first + step]
        part = packed[first * BLOCK_ROWS : (first + step) * BLOCK_ROWS]
        missing = len(target) * BLOCK_ROWS - len(part)
        if missing:
            part = np.pad(part, ((0, missing), (0, 0)))
        _fill(target, format, parts_of(part, columns))

    # Numpy lets other threads run while it computes.
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        list(threads.map(fill, range(0, blocks, step)))
    return out


def _fill(target: Packed, format: Format, parts: _Parts) -> None:
    heads, steps = parts
    spans = target.reshape(len(target), -1, format.span_bytes)
    _put(spans[..., : format.head_bytes], heads)
    split = (*spans.shape[:2], format.span_steps, -1)
    _put(spans[..., format.head_bytes :].reshape(split), [one.reshape(split) for one in steps])


def _put(target: Packed, planes: list[Packed]) -> None:
    start = 0
    for plane in planes:
        target[..., start : start + plane.shape[-1]] = plane
        start += plane.shape[-1]


def aligned(rows: int, columns: int) -> Packed:
    """An array that `jax.device_put` takes over as it is; it would copy others."""
    memory = np.empty(rows * columns + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + rows * columns].reshape(rows, columns)


def _blocks(packed: Packed, size: int) -> Packed:
    """The type's blocks of a row: [rows, blocks of a row, size]."""
    return packed.reshape(packed.shape[0], -1, size)


def _halves_of_byte(packed: Packed) -> Codes:
    """Bytes whose lower halves come first: [..., n] to [..., 2 * n]."""
    return np.concatenate((packed & np.uint8(15), packed >> np.uint8(4)), axis=-1)


def _plain(size: int) -> Callable[[Packed, int], _Parts]:
    def parts(packed: Packed, columns: int) -> _Parts:
        steps = packed.reshape(packed.shape[0], -1, STEP_COLUMNS * size)
        return [], [byte_plane(steps, size)]

    return parts


def _q4_0(packed: Packed, columns: int) -> _Parts:
    blocks = _blocks(packed, 18)
    return [], [half_plane(blocks[..., :2]), fields(_halves_of_byte(blocks[..., 2:]), 4)]


def _q4_1(packed: Packed, columns: int) -> _Parts:
    blocks = _blocks(packed, 20)
    scales = [half_plane(blocks[..., :2]), half_plane(blocks[..., 2:4])]
    return [], [*scales, fields(_halves_of_byte(blocks[..., 4:]), 4)]


def _q5_0(packed: Packed, columns: int) -> _Parts:
    blocks = _blocks(packed, 22)
    codes = _halves_of_byte(blocks[..., 6:]) | _fifths(blocks[..., 2:6])
    return [], [half_plane(blocks[..., :2]), odd_bits(codes, 5)]


def _q5_1(packed: Packed, columns: int) -> _Parts:
    blocks = _blocks(packed, 24)
    scales = [half_plane(blocks[..., :2]), half_plane(blocks[..., 2:4])]
    codes = _halves_of_byte(blocks[..., 8:]) | _fifths(blocks[..., 4:8])
    return [], [*scales, odd_bits(codes, 5)]


def _fifths(packed: Packed) -> Codes:
    """The highest bit of each code, at its place: eight to a byte before."""
    return np.unpackbits(packed, axis=-1, bitorder="little") << np.uint8(4)


def _q8_0(packed: Packed, columns: int) -> _Parts:
    blocks = _blocks(packed, 34)
    return [], [half_plane(blocks[..., :2]), fields(blocks[..., 2:] ^ _SIGN, 8)]


def _int8(packed: Packed, columns: int) -> _Parts:
    codes = packed[:, :columns].reshape(packed.shape[0], -1, STEP_COLUMNS)
    scales = packed[:, columns:].reshape(packed.shape[0], -1, 4)
    return [byte_plane(scales, 4)], [fields(codes ^ _SIGN, 8)]


def _q2_k(packed: Packed, columns: int) -> _Parts:
    blocks = _blocks(packed, 84)
    heads = [half_plane(blocks[..., 80:82]), half_plane(blocks[..., 82:])]
    both = blocks[..., :16].reshape(packed.shape[0], -1, 2)
    codes = _two_bits(blocks[..., 16:80])
    return heads, [byte_plane(both, 1), fields(codes, 2)]


def _q3_k(packed: Packed, columns: int) -> _Parts:
    blocks = _blocks(packed, 110)
    low = blocks[..., 96:104]
    high = blocks[..., 104:108, None] >> np.arange(0, 8, 2, dtype=np.uint8) & np.uint8(3)
    high = high.swapaxes(-1, -2).reshape(*low.shape[:-1], 16)
    scales = (_halves_of_byte(low) | (high << np.uint8(4))) - np.uint8(32)
    third = blocks[..., None, :32] >> np.arange(8, dtype=np.uint8)[:, None] & np.uint8(1)
    codes = _two_bits(blocks[..., 32:96])
    return [half_plane(blocks[..., 108:])], [
        byte_plane(scales.reshape(packed.shape[0], -1, 2), 1),
        odd_bits(codes | third.reshape(codes.shape) << np.uint8(2), 3),
    ]


def _two_bits(packed: Packed) -> Codes:
    """Codes of Q2_K and Q3_K, in steps: [rows, blocks, 64] to [rows, steps, 32]."""
    halves = packed.reshape(*packed.shape[:-1], 2, 1, 32)
    codes = halves >> np.arange(0, 8, 2, dtype=np.uint8)[:, None] & np.uint8(3)
    return codes.reshape(packed.shape[0], -1, STEP_COLUMNS)


def _scales_and_minima(head: Packed) -> tuple[Codes, Codes]:
    """The eight scales and minima of Q4_K and Q5_K, from the 12 bytes that hold them."""
    scales, minima, low = head[..., :4], head[..., 4:8], head[..., 8:]
    return (
        np.concatenate((scales & 63, (low & 15) | ((scales >> 2) & 48)), axis=-1),
        np.concatenate((minima & 63, (low >> 4) | ((minima >> 2) & 48)), axis=-1),
    )


def _nibble_steps(packed: Packed) -> Codes:
    """Codes of Q4_K and Q5_K, in steps: the lower halves of 32 bytes, then the upper ones."""
    both = packed.reshape(packed.shape[0], -1, 1, 32)
    codes = both >> np.array([[0], [4]], np.uint8) & np.uint8(15)
    return codes.reshape(packed.shape[0], -1, STEP_COLUMNS)


def _with_minima(blocks: Packed) -> tuple[list[Packed], list[Packed]]:
    heads = [half_plane(blocks[..., :2]), half_plane(blocks[..., 2:4])]
    per_step = [
        byte_plane(one.reshape(one.shape[0], -1, 1), 1)
        for one in _scales_and_minima(blocks[..., 4:16])
    ]
    return heads, per_step


def _q4_k(packed: Packed, columns: int) -> _Parts:
    blocks = _blocks(packed, 144)
    heads, scales = _with_minima(blocks)
    return heads, [*scales, fields(_nibble_steps(blocks[..., 16:]), 4)]


def _q5_k(packed: Packed, columns: int) -> _Parts:
    blocks = _blocks(packed, 176)
    heads, scales = _with_minima(blocks)
    fifth = blocks[..., None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None] & np.uint8(1)
    low = _nibble_steps(blocks[..., 48:])
    return heads, [*scales, odd_bits(low | fifth.reshape(low.shape) << np.uint8(4), 5)]


def _q6_k(packed: Packed, columns: int) -> _Parts:
    blocks = _blocks(packed, 210)
    rows = packed.shape[0]
    low = blocks[..., :128].reshape(rows, -1, 2, 1, 64) >> np.array(
        [[0], [4]], np.uint8
    ) & np.uint8(15)
    shifts = np.arange(0, 8, 2, dtype=np.uint8)[:, None]
    high = blocks[..., 128:192].reshape(rows, -1, 2, 1, 32) >> shifts & np.uint8(3)
    scales = blocks[..., 192:208].reshape(rows, -1, 2)
    codes = low.reshape(high.shape) | high << np.uint8(4)
    return [half_plane(blocks[..., 208:])], [
        byte_plane(scales, 1),
        six_bits(codes.reshape(rows, -1, STEP_COLUMNS)),
    ]


def _iq4_nl(packed: Packed, columns: int) -> _Parts:
    blocks = _blocks(packed, 18)
    return [], [half_plane(blocks[..., :2]), nibbles(_halves_of_byte(blocks[..., 2:]))]


def _iq4_xs(packed: Packed, columns: int) -> _Parts:
    blocks = _blocks(packed, 136)
    rows = packed.shape[0]
    high = np.ascontiguousarray(blocks[..., 2:4]).view("<u2")
    high = (high >> np.arange(0, 16, 2, dtype=np.uint16)).astype(np.uint8) & np.uint8(3)
    low = blocks[..., 4:8, None] >> np.array([0, 4], np.uint8) & np.uint8(15)
    scales = (low.reshape(high.shape) | (high << np.uint8(4))) - np.uint8(32)
    codes = _halves_of_byte(blocks[..., 8:].reshape(rows, -1, 16))
    return [half_plane(blocks[..., :2])], [
        byte_plane(scales.reshape(rows, -1, 1), 1),
        nibbles(codes),
    ]


def _tq1_0(packed: Packed, columns: int) -> _Parts:
    blocks = _blocks(packed, 54)
    powers = np.array([1, 3, 9, 27, 81], np.uint8)[:, None]
    digits = [
        (part[..., None, :] * powers[:count]).reshape(*part.shape[:-1], -1)
        for part, count in ((blocks[..., :32], 5), (blocks[..., 32:48], 5), (blocks[..., 48:52], 4))
    ]
    codes = (np.concatenate(digits, axis=-1).astype(np.uint16) * 3 >> 8).astype(np.uint8)
    return [half_plane(blocks[..., 52:])], [fields(_in_steps(codes), 2)]


def _tq2_0(packed: Packed, columns: int) -> _Parts:
    blocks = _blocks(packed, 66)
    return [half_plane(blocks[..., 64:])], [fields(_two_bits(blocks[..., :64]), 2)]


def _mxfp4(packed: Packed, columns: int) -> _Parts:
    blocks = _blocks(packed, 17)
    codes = _halves_of_byte(blocks[..., 1:])
    # Zeros need no scale; a large one would cost their neighbours digits.
    exponents = np.where((codes & _MAGNITUDE).any(axis=-1), blocks[..., 0], np.uint8(0))
    return [], [byte_plane(exponents[..., None], 1), nibbles(codes)]


def _nvfp4(packed: Packed, columns: int) -> _Parts:
    blocks = _blocks(packed, 36)
    rows = packed.shape[0]
    exponent, mantissa = blocks[..., :4] >> 3 & 15, (blocks[..., :4] & 7).astype(np.float32)
    normal = np.ldexp(8 + mantissa, exponent.astype(np.int32) - 7 - 3 - 1)
    scales = np.where(exponent == 0, np.ldexp(mantissa, -10), normal)
    # ggml reads the pattern of NaN as zero; every other scale is exact in float16.
    codes = _halves_of_byte(blocks[..., 4:].reshape(rows, -1, 4, 8))
    nothing = (blocks[..., :4] == 0x7F) | ~(codes & _MAGNITUDE).any(axis=-1)
    scales = np.where(nothing, 0, scales).astype(np.float16)
    halves = scales.view(np.uint8).reshape(rows, -1, 2, 2)
    return [], [
        half_plane(halves[:, :, 0]),
        half_plane(halves[:, :, 1]),
        nibbles(codes.reshape(rows, -1, STEP_COLUMNS)),
    ]


def _codebook(source: str) -> Callable[[Packed, int], _Parts]:
    def parts(packed: Packed, columns: int) -> _Parts:
        scales, fine, codes = codes_of(source, packed)
        octets = codes.view(np.uint8).reshape(len(packed), -1, STEP_COLUMNS) ^ _SIGN
        per_step = byte_plane(fine.reshape(len(packed), -1, 2), 1)
        return [half_plane(scales)], [per_step, fields(octets, 8)]

    return parts


def _in_steps(codes: Codes) -> Codes:
    return codes.reshape(codes.shape[0], -1, STEP_COLUMNS)


_SOURCES: Final[Mapping[str, tuple[Format, Callable[[Packed, int], _Parts]]]] = MappingProxyType(
    {
        "F32": (Format.F32, _plain(4)),
        "F16": (Format.F16, _plain(2)),
        "BF16": (Format.BF16, _plain(2)),
        "Q4_0": (Format.Q4_0, _q4_0),
        "Q4_1": (Format.Q4_1, _q4_1),
        "Q5_0": (Format.Q5_0, _q5_0),
        "Q5_1": (Format.Q5_1, _q5_1),
        "Q8_0": (Format.Q8_0, _q8_0),
        "INT8": (Format.INT8, _int8),
        **{source: (Format.CODES8, _codebook(source)) for source in CODEBOOK_TYPES},
        "Q2_K": (Format.Q2_K, _q2_k),
        "Q3_K": (Format.Q3_K, _q3_k),
        "Q4_K": (Format.Q4_K, _q4_k),
        "Q5_K": (Format.Q5_K, _q5_k),
        "Q6_K": (Format.Q6_K, _q6_k),
        "IQ4_NL": (Format.IQ4_NL, _iq4_nl),
        "IQ4_XS": (Format.IQ4_XS, _iq4_xs),
        "TQ1_0": (Format.TERNARY, _tq1_0),
        "TQ2_0": (Format.TERNARY, _tq2_0),
        "MXFP4": (Format.MXFP4, _mxfp4),
        "NVFP4": (Format.NVFP4, _nvfp4),
    }
)
