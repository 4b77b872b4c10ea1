"""Raw blocks of ggml to values, in the registers of a Triton kernel: a function for each type.

Each takes `at`, uint8 pointers to blocks [rows, blocks, 1, 1], and which of their parts is wanted,
and gives float32 [rows, blocks, units, 16] (`raw_types.py`). Where `live` is false nothing is read,
and every value is zero. What several parts need is loaded once by a program that wants all of them:
the compiler merges equal loads.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def values_of_part(at, live, PART: tl.constexpr, TYPE: tl.constexpr):
    """One part of blocks of a type, which is named as in ggml."""
    if TYPE == "Q4_0":
        return _q4_0(at, live, PART)
    elif TYPE == "Q4_1":
        return _q4_1(at, live, PART)
    elif TYPE == "Q8_0":
        return _q8_0(at, live)
    elif TYPE == "Q3_K":
        return _q3_k(at, live, PART)
    elif TYPE == "Q4_K":
        return _q4_k(at, live, PART)
    elif TYPE == "Q5_K":
        return _q5_k(at, live, PART)
    else:
        tl.static_assert(TYPE == "Q6_K")
        return _q6_k(at, live, PART)


@triton.jit
def _q4_0(at, live, PART: tl.constexpr):
    """float16 scale, 16 bytes of two codes, the upper one 16 columns on. `scale * (q - 8)`."""
    code = (_bytes(at + 2 + _lanes(), live) >> (4 * PART)) & 15
    return _half(at, live) * (code - 8).to(tl.float32)


@triton.jit
def _q4_1(at, live, PART: tl.constexpr):
    """As Q4_0, with a float16 minimum after the scale. `scale * q + minimum`."""
    scale, minimum = _two_halves(at, live)
    code = (_bytes(at + 4 + _lanes(), live) >> (4 * PART)) & 15
    return scale * code.to(tl.float32) + minimum


@triton.jit
def _q8_0(at, live):
    """float16 scale, 32 signed bytes. `scale * q`."""
    code = _signed_bytes(at + 2 + 16 * _units(2) + _lanes(), live)
    return _half(at, live) * code.to(tl.float32)


@triton.jit
def _q3_k(at, live, PART: tl.constexpr):
    """32 bytes of third bits, 64 of lower two bits, 12 of sixteen 6-bit scales, float16 scale of
    them. `scale * (scales - 32) * (q - 4)`.

    The lower four bits of scales that are 8 apart share bytes 96 to 103; the upper two of those
    that are 4 apart share bytes 104 to 107.
    """
    place = 16 * _units(2) + _lanes()
    low = _bytes(at + 32 + 32 * (PART // 4) + place, live) >> (2 * (PART % 4))
    high = _bytes(at + place, live) >> PART
    code = ((low & 3) | ((high & 1) << 2)) - 4
    low = _bytes(at + 96 + 2 * (PART % 4) + _units(2), live) >> (4 * (PART // 4))
    high = _bytes(at + 104 + 2 * (PART % 2) + _units(2), live) >> (2 * (PART // 2))
    scale = ((low & 15) | ((high & 3) << 4)) - 32
    return (_half(at + 108, live) * scale.to(tl.float32)) * code.to(tl.float32)


@triton.jit
def _q4_k(at, live, PART: tl.constexpr):
    """float16 scale of scales and of minima, 12 bytes of eight 6-bit scales and minima of 32
    values each, 128 bytes of codes. `scale * q - minimum`."""
    scale, minimum = _scale_and_minimum(at, live, PART)
    place = 32 * (PART // 2) + 16 * _units(2) + _lanes()
    code = (_bytes(at + 16 + place, live) >> (4 * (PART % 2))) & 15
    return scale * code.to(tl.float32) - minimum


@triton.jit
def _q5_k(at, live, PART: tl.constexpr):
    """As Q4_K, with 32 bytes of fifth bits before the codes."""
    scale, minimum = _scale_and_minimum(at, live, PART)
    place = 16 * _units(2) + _lanes()
    low = _bytes(at + 48 + 32 * (PART // 2) + place, live) >> (4 * (PART % 2))
    high = _bytes(at + 16 + place, live) >> PART
    code = (low & 15) | ((high & 1) << 4)
    return scale * code.to(tl.float32) - minimum


@triton.jit
def _q6_k(at, live, PART: tl.constexpr):
    """128 bytes of lower four bits, 64 of upper two, 16 signed scales of 16 values, float16 scale
    of them. `scale * scales * (q - 32)`."""
    place = 16 * _units(2) + _lanes()
    low = _bytes(at + 64 * (PART // 4) + 32 * (PART % 2) + place, live)
    high = _bytes(at + 128 + 32 * (PART // 4) + place, live)
    code = (low >> (4 * (PART % 4 // 2))) & 15
    code = (code | (((high >> (2 * (PART % 4))) & 3) << 4)) - 32
    scale = _signed_bytes(at + 192 + 2 * PART + _units(2), live)
    return (_half(at + 208, live) * scale.to(tl.float32)) * code.to(tl.float32)


@triton.jit
def _scale_and_minimum(at, live, NUMBER: tl.constexpr):
    """One of the eight scales and minima in the first 16 bytes of Q4_K and Q5_K.

    Bytes 4 to 7 are scales 0 to 3 with the upper bits of scales 4 to 7 on top, bytes 8 to 11 the
    same of minima; bytes 12 to 15 hold the lower four bits of scales 4 to 7 and of minima 4 to 7.
    """
    scale, minimum = _two_halves(at, live)
    scales = _word(at + 4, live) >> (8 * (NUMBER % 4))
    minima = _word(at + 8, live) >> (8 * (NUMBER % 4))
    if NUMBER < 4:
        scales, minima = scales & 63, minima & 63
    else:
        both = _word(at + 12, live) >> (8 * (NUMBER % 4))
        scales = (both & 15) | ((scales >> 2) & 48)
        minima = ((both >> 4) & 15) | ((minima >> 2) & 48)
    return scale * scales.to(tl.float32), minimum * minima.to(tl.float32)


@triton.jit
def _bytes(at, live):
    return tl.load(at, mask=live, other=0).to(tl.int32)


@triton.jit
def _signed_bytes(at, live):
    return tl.load(at.to(tl.pointer_type(tl.int8)), mask=live, other=0).to(tl.int32)


@triton.jit
def _word(at, live):
    """Four bytes of which the first is at a multiple of four."""
    return tl.load(at.to(tl.pointer_type(tl.int32)), mask=live, other=0)


@triton.jit
def _half(at, live):
    return tl.load(at.to(tl.pointer_type(tl.float16)), mask=live, other=0.0).to(tl.float32)


@triton.jit
def _two_halves(at, live):
    word = _word(at, live)
    low = word.to(tl.int16).to(tl.float16, bitcast=True)
    high = (word >> 16).to(tl.int16).to(tl.float16, bitcast=True)
    return low.to(tl.float32), high.to(tl.float32)


@triton.jit
def _units(COUNT: tl.constexpr):
    return tl.arange(0, COUNT)[None, None, :, None]


@triton.jit
def _lanes():
    return tl.arange(0, 16)[None, None, None, :]
