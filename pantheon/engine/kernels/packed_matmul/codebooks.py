"""Types whose values come from codebooks (IQ1, IQ2, IQ3; ggml, ggml-quants.c) as codes of 8 bits.

Exactly: a value is `scale * fine * code / 8`, of a float16 for 256 columns, an odd number below 32
for 16 of them, and a whole number. Packed as they are, a product would have to look them up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
from gguf import quants
from numpy.typing import NDArray

_Bytes = NDArray[np.uint8]
_Whole = NDArray[np.integer[Any]]

_SPAN: Final = 256
_GROUP: Final = 16


class Codes(NamedTuple):
    """Rows of spans of 256 columns.

    Attributes:
        scales: bytes of a float16 for each span: uint8 [rows, spans, 2].
        fine: uint8 [rows, spans, 16], one for each 16 columns.
        codes: int8 [rows, spans, 256].
    """

    scales: _Bytes
    fine: _Bytes
    codes: NDArray[np.int8]


def codes_of(source: str, packed: _Bytes) -> Codes:
    """The codes of rows of one of `CODEBOOK_TYPES`: uint8 [rows, bytes of a row]."""
    size, read = _TYPES[source]
    return read(packed.reshape(len(packed), -1, size))


def _iq2_xxs(blocks: _Bytes) -> Codes:
    halves = blocks[..., 2:].reshape(*blocks.shape[:2], 8, 2, 4)
    control = _words(halves[..., 1, :], 4)[..., 0]
    values = _looked_up("IQ2_XXS", halves[..., 0, :].reshape(*blocks.shape[:2], 32), 1)
    return Codes(blocks[..., :2], _twice(_odd(control >> 28)), values * _even_signs(control))


def _iq2_xs(blocks: _Bytes) -> Codes:
    words = _words(blocks[..., 2:66], 2)
    values = _looked_up("IQ2_XS", words & 511, 1)
    signs = _signs(_with_parity((words >> 9).astype(np.uint8)))
    return Codes(blocks[..., :2], _odd(_nibbles(blocks[..., 66:])), values * signs)


def _iq2_s(blocks: _Bytes) -> Codes:
    index = _joined(blocks[..., 2:34], _fields(blocks[..., 66:74], 2, (0, 2, 4, 6)))
    values = _looked_up("IQ2_S", index, 1) * _signs(blocks[..., 34:66])
    return Codes(blocks[..., :2], _odd(_nibbles(blocks[..., 74:])), values)


def _iq3_xxs(blocks: _Bytes) -> Codes:
    control = _words(blocks[..., 66:], 4)
    values = _looked_up("IQ3_XXS", blocks[..., 2:66], 2)
    return Codes(blocks[..., :2], _twice(_odd(control >> 28)), values * _even_signs(control))


def _iq3_s(blocks: _Bytes) -> Codes:
    index = _joined(blocks[..., 2:66], _fields(blocks[..., 66:74], 1, tuple(range(8))))
    values = _looked_up("IQ3_S", index, 8) * _signs(blocks[..., 74:106])
    return Codes(blocks[..., :2], _twice(_odd(_nibbles(blocks[..., 106:]))), values)


def _iq1_s(blocks: _Bytes) -> Codes:
    words = _words(blocks[..., 34:], 2)
    index = _joined(blocks[..., 2:34], _fields(words, 3, (0, 3, 6, 9)))
    delta = np.where(words >> 15, np.int8(-1), np.int8(1))
    values = _looked_up("IQ1_S", index, 8) + np.repeat(delta, 32, axis=-1)
    return Codes(blocks[..., :2], _twice(_odd(words >> 12 & words.dtype.type(7))), values)


def _iq1_m(blocks: _Bytes) -> Codes:
    words = _words(blocks[..., 48:], 2)
    tops = words >> 12 << np.array([0, 4, 8, 12], np.uint16)
    scales = np.bitwise_or.reduce(tops, axis=-1, keepdims=True).astype("<u2").view(np.uint8)
    upper = _fields(blocks[..., 32:48], 4, (0, 4))
    delta = np.where(upper & 8, np.int8(-1), np.int8(1))
    index = _joined(blocks[..., :32], upper & np.uint8(7))
    values = _looked_up("IQ1_M", index, 8) + np.repeat(delta, 8, axis=-1)
    return Codes(scales, _odd(_fields(words, 3, (0, 3, 6, 9))), values)


@cache
def _codebook(name: str, times: int) -> NDArray[np.int8]:
    """The codebook of a type as the gguf package has it, times a number: int8 [entries, values]."""
    type_ = getattr(quants, name)
    type_.init_grid()
    book = np.asarray(type_.grid).reshape(type_.grid_shape) * times
    return np.ascontiguousarray(book, np.int8)


def _looked_up(name: str, index: _Whole, times: int) -> NDArray[np.int8]:
    found = np.take(_codebook(name, times), index, axis=0)
    return found.reshape(*index.shape[:-1], _SPAN)


def _words(packed: _Bytes, size: int) -> _Whole:
    words: _Whole = np.ascontiguousarray(packed).view(f"<u{size}")
    return words


def _fields(packed: _Whole, bits: int, shifts: tuple[int, ...]) -> _Bytes:
    """The numbers at some bits of each entry, one after the other."""
    spread = packed[..., None] >> np.array(shifts, packed.dtype) & packed.dtype.type(
        (1 << bits) - 1
    )
    return spread.astype(np.uint8).reshape(*packed.shape[:-1], -1)


def _nibbles(packed: _Bytes) -> _Bytes:
    return _fields(packed, 4, (0, 4))


def _joined(low: _Bytes, high: _Bytes) -> NDArray[np.uint16]:
    return low.astype(np.uint16) | high.astype(np.uint16) << np.uint16(8)


def _odd(fine: _Whole) -> _Bytes:
    return (2 * fine + 1).astype(np.uint8)


def _twice(fine: _Bytes) -> _Bytes:
    """Scales of 32 columns as those of 16."""
    return np.repeat(fine, 2, axis=-1)


def _with_parity(signs: _Bytes) -> _Bytes:
    """Seven signs with the eighth that makes their number even."""
    odd: _Bytes = np.bitwise_xor.reduce(np.unpackbits(signs[..., None], axis=-1), axis=-1)
    return signs | odd << np.uint8(7)


def _even_signs(control: _Whole) -> NDArray[np.int8]:
    """The four sign patterns in the lower 28 bits of each word, each completed to eight."""
    return _signs(_with_parity(_fields(control, 7, (0, 7, 14, 21))))


def _signs(patterns: _Bytes) -> NDArray[np.int8]:
    """-1 where a bit is set, else 1: [..., bytes] to [..., 8 * bytes]."""
    bits = np.unpackbits(patterns, axis=-1, bitorder="little").view(np.int8)
    return 1 - 2 * bits


_TYPES: Final[Mapping[str, tuple[int, Callable[[_Bytes], Codes]]]] = MappingProxyType(
    {
        "IQ1_S": (50, _iq1_s),
        "IQ1_M": (56, _iq1_m),
        "IQ2_XXS": (66, _iq2_xxs),
        "IQ2_XS": (74, _iq2_xs),
        "IQ2_S": (82, _iq2_s),
        "IQ3_XXS": (98, _iq3_xxs),
        "IQ3_S": (110, _iq3_s),
    }
)

CODEBOOK_TYPES: Final = tuple(_TYPES)
"""Names of the types."""
