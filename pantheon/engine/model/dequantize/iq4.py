"""Four-bit values from a table of uneven steps: IQ4_NL, IQ4_XS (ggml, ggml-quants.c)."""

from __future__ import annotations

import jax.numpy as jnp
from gguf.quants import IQ4_NL
from jaxtyping import Array, Float, UInt8

from pantheon.engine.model.dequantize.bits import (
    half,
    held,
    joined_fields,
    looked_up,
    spread,
    words16,
)


def iq4_nl(blocks: UInt8[Array, "*rows 18"]) -> Float[Array, "*rows 32"]:
    """float16 scale; 16 bytes of two values each. `scale * table[q]`."""
    values = looked_up(joined_fields(blocks[..., 2:], 4, 2), IQ4_NL.kvalues)
    scaled = half(blocks[..., :2])[..., None] * values.astype(jnp.float32)
    return scaled.reshape(*blocks.shape[:-1], 32)


def iq4_xs(blocks: UInt8[Array, "*rows 136"]) -> Float[Array, "*rows 256"]:
    """float16 scale of scales, upper two and lower four bits of eight scales of 32 values, 128
    bytes of values. `scale * (scales - 32) * table[q]`."""
    rows = blocks.shape[:-1]
    high = spread(words16(blocks[..., 2:4]), 2, range(0, 16, 2)).astype(jnp.uint8)
    scales = held(spread(blocks[..., 4:8], 4, (0, 4)) | (high << 4)).astype(jnp.float32) - 32
    scales = (half(blocks[..., :2]) * scales)[..., None, None]
    packed = joined_fields(blocks[..., 8:].reshape(*rows, 8, 16), 4, 2)
    values = looked_up(packed, IQ4_NL.kvalues).astype(jnp.float32)
    return (scales * values).reshape(*rows, 256)
