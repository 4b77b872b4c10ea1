"""Blocks of 32 values with one scale: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 (ggml, ggml-quants.c)."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float, UInt8

from pantheon.engine.model.dequantize.bits import fields, half, signed, spread


def q4_0(blocks: UInt8[Array, "*rows 18"]) -> Float[Array, "*rows 32"]:
    """float16 scale; 16 bytes of two values each. `scale * (q - 8)`."""
    values = fields(blocks[..., 2:], 4, 2).astype(jnp.float32) - 8
    return _joined(half(blocks[..., :2])[..., None] * values)


def q4_1(blocks: UInt8[Array, "*rows 20"]) -> Float[Array, "*rows 32"]:
    """float16 scale and minimum; 16 bytes of two values each. `scale * q + minimum`."""
    values = fields(blocks[..., 4:], 4, 2).astype(jnp.float32)
    scale, minimum = half(blocks[..., :2])[..., None], half(blocks[..., 2:4])[..., None]
    return _joined(scale * values + minimum)


def q5_0(blocks: UInt8[Array, "*rows 22"]) -> Float[Array, "*rows 32"]:
    """float16 scale; a fifth bit of each value; 16 bytes. `scale * (q - 16)`."""
    values = _five_bits(blocks[..., 2:6], blocks[..., 6:]).astype(jnp.float32) - 16
    return _joined(half(blocks[..., :2])[..., None] * values)


def q5_1(blocks: UInt8[Array, "*rows 24"]) -> Float[Array, "*rows 32"]:
    """float16 scale and minimum; a fifth bit of each value; 16 bytes. `scale * q + minimum`."""
    values = _five_bits(blocks[..., 4:8], blocks[..., 8:]).astype(jnp.float32)
    scale, minimum = half(blocks[..., :2])[..., None], half(blocks[..., 2:4])[..., None]
    return _joined(scale * values + minimum)


def q8_0(blocks: UInt8[Array, "*rows 34"]) -> Float[Array, "*rows 32"]:
    """float16 scale; 32 signed bytes. `scale * q`."""
    return half(blocks[..., :2]) * signed(blocks[..., 2:])


def _five_bits(
    fifth: UInt8[Array, "*rows 4"], packed: UInt8[Array, "*rows 16"]
) -> UInt8[Array, "*rows 2 16"]:
    """Bit i of `fifth` belongs to value i: 16 values of lower nibbles, then 16 of upper ones."""
    bits = spread(fifth, 1, range(8)).reshape(*fifth.shape[:-1], 2, 16)
    return fields(packed, 4, 2) | (bits << 4)


def _joined(values: Float[Array, "*rows 2 16"]) -> Float[Array, "*rows 32"]:
    return values.reshape(*values.shape[:-2], 32)
