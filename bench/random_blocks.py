"""Random weights, packed in ggml's blocks without quantising any.

Codes and scales are drawn, so that a block is valid by itself and the mean of its weights is about
zero. The layouts are those of `block_q4_K` and `block_q6_K` in ggml's `ggml-common.h`.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from jaxtyping import UInt8

VALUES: Final = 256
"""Weights of a block."""

_Q4_CENTRE: Final = 7.5
_Q4_SCALES: Final = (40, 64)
"""From, and up to: of the 63 that six bits hold."""

_Q6_CENTRE: Final = 32
_Q6_SCALES: Final = (8, 16)
"""Small ones, which keep the block's own scale out of float16's subnormal numbers."""


def q4_k(random: np.random.Generator, blocks: int, std: float) -> UInt8[np.ndarray, "blocks 144"]:
    """Blocks of Q4_K whose weights have about the standard deviation `std`.

    A weight is d * scale * code - dmin * min, with 4-bit codes and 6-bit scales and mins; here
    the min is the scale and dmin is 7.5 d, so that the codes' middle is zero.
    """
    packed = np.empty((blocks, 144), np.uint8)
    scales = random.integers(*_Q4_SCALES, (blocks, 8), np.uint8)
    d = std / (_rms(_Q4_SCALES) * _uniform_std(16))
    packed[:, 0:2] = _float16(d)
    packed[:, 2:4] = _float16(_Q4_CENTRE * d)
    # Scales and mins of the first four groups have their six bits to themselves; those of the
    # last four are spread: four bits in the last bytes, two on top of the first ones.
    high = (scales[:, 4:] >> 4) << 6
    packed[:, 4:8] = scales[:, :4] | high
    packed[:, 8:12] = scales[:, :4] | high
    packed[:, 12:16] = (scales[:, 4:] & 15) | (scales[:, 4:] << 4)
    packed[:, 16:] = random.integers(0, 256, (blocks, 128), np.uint8)
    return packed


def q6_k(random: np.random.Generator, blocks: int, std: float) -> UInt8[np.ndarray, "blocks 210"]:
    """Blocks of Q6_K: a weight is d * scale * (code - 32), with 6-bit codes and 8-bit scales."""
    packed = np.empty((blocks, 210), np.uint8)
    packed[:, :192] = random.integers(0, 256, (blocks, 192), np.uint8)
    packed[:, 192:208] = random.integers(*_Q6_SCALES, (blocks, 16), np.uint8)
    packed[:, 208:] = _float16(std / (_rms(_Q6_SCALES) * _uniform_std(2 * _Q6_CENTRE)))
    return packed


def _float16(value: float) -> UInt8[np.ndarray, " 2"]:
    return np.array([value], np.float16).view(np.uint8)


def _rms(bounds: tuple[int, int]) -> float:
    """Root mean square of the integers from the first bound up to the second."""
    return float(np.sqrt(np.mean(np.arange(*bounds, dtype=np.float64) ** 2)))


def _uniform_std(count: int) -> float:
    """Standard deviation of `count` equally likely integers in a row."""
    return float(np.sqrt((count**2 - 1) / 12))
