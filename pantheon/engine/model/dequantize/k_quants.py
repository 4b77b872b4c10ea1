"""Super-blocks of 256 values with scales of scales: Q2_K to Q6_K (ggml, ggml-quants.c)."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float, UInt8

from pantheon.engine.model.dequantize.bits import fields, half, held, joined_fields, signed


def q2_k(blocks: UInt8[Array, "*rows 84"]) -> Float[Array, "*rows 256"]:
    """16 bytes of a scale and a minimum of 16 values each, 64 bytes of values, float16 scale of
    scales and of minima. `scale * q - minimum`."""
    rows = blocks.shape[:-1]
    both = held(blocks[..., :16])
    scales = half(blocks[..., 80:82]) * (both & 15).astype(jnp.float32)
    minima = half(blocks[..., 82:]) * (both >> 4).astype(jnp.float32)
    values = fields(blocks[..., 16:80].reshape(*rows, 2, 32), 2, 4).astype(jnp.float32)
    return _with_minima(values.reshape(*rows, 2, 4, 2, 16), scales, minima)


def q3_k(blocks: UInt8[Array, "*rows 110"]) -> Float[Array, "*rows 256"]:
    """32 bytes of third bits, 64 of lower two bits, 12 of sixteen 6-bit scales, float16 scale of
    them. `scale * (scales - 32) * (q - 4)`."""
    rows = blocks.shape[:-1]
    low = fields(blocks[..., 32:96].reshape(*rows, 2, 32), 2, 4)
    high = fields(blocks[..., :32], 1, 8).reshape(*rows, 2, 4, 32)
    values = (low | (high << 2)).astype(jnp.float32) - 4
    low_scales = fields(blocks[..., 96:104], 4, 2).reshape(*rows, 16)
    high_scales = fields(blocks[..., 104:108], 2, 4).reshape(*rows, 16)
    scales = held(low_scales | (high_scales << 4)).astype(jnp.float32) - 32
    return _scaled(values.reshape(*rows, 2, 4, 2, 16), half(blocks[..., 108:]) * scales)


def q4_k(blocks: UInt8[Array, "*rows 144"]) -> Float[Array, "*rows 256"]:
    """float16 scale of scales and of minima, 12 bytes of eight 6-bit scales and minima of 32
    values each, 128 bytes of values. `scale * q - minimum`."""
    rows = blocks.shape[:-1]
    scales, minima = _scales_and_minima(blocks[..., :16])
    values = joined_fields(blocks[..., 16:].reshape(*rows, 4, 32), 4, 2).astype(jnp.float32)
    return _with_minima(values, scales, minima)


def q5_k(blocks: UInt8[Array, "*rows 176"]) -> Float[Array, "*rows 256"]:
    """As Q4_K, with 32 bytes of fifth bits before the values."""
    rows = blocks.shape[:-1]
    scales, minima = _scales_and_minima(blocks[..., :16])
    low = joined_fields(blocks[..., 48:].reshape(*rows, 4, 32), 4, 2)
    high = fields(blocks[..., 16:48], 1, 8).reshape(*rows, 4, 2, 32)
    return _with_minima((low | (high << 4)).astype(jnp.float32), scales, minima)


def q6_k(blocks: UInt8[Array, "*rows 210"]) -> Float[Array, "*rows 256"]:
    """128 bytes of lower four bits, 64 of upper two, 16 signed scales of 16 values, float16
    scale of them. `scale * scales * (q - 32)`."""
    rows = blocks.shape[:-1]
    low = fields(blocks[..., :128].reshape(*rows, 2, 64), 4, 2).reshape(*rows, 2, 4, 32)
    high = fields(blocks[..., 128:192].reshape(*rows, 2, 32), 2, 4)
    values = (low | (high << 4)).astype(jnp.float32) - 32
    scales = half(blocks[..., 208:]) * signed(blocks[..., 192:208])
    return _scaled(values.reshape(*rows, 2, 4, 2, 16), scales)


def _scaled(
    values: Float[Array, "*groups n"], scales: Float[Array, "*rows groups_of_block"]
) -> Float[Array, "*rows 256"]:
    """Values, in whatever axes they were unpacked, times the scales of their groups."""
    scaled = scales.reshape(*values.shape[:-1], 1) * values
    return scaled.reshape(*scales.shape[:-1], 256)


def _with_minima(
    values: Float[Array, "*groups n"],
    scales: Float[Array, "*rows groups_of_block"],
    minima: Float[Array, "*rows groups_of_block"],
) -> Float[Array, "*rows 256"]:
    """As `_scaled`, less the minima of the groups."""
    groups = (*values.shape[:-1], 1)
    moved = scales.reshape(groups) * values - minima.reshape(groups)
    return moved.reshape(*scales.shape[:-1], 256)


def _scales_and_minima(
    head: UInt8[Array, "*rows 16"],
) -> tuple[Float[Array, "*rows 8"], Float[Array, "*rows 8"]]:
    """The products of two float16 scales with eight 6-bit scales and eight 6-bit minima.

    Bytes 4 to 7 are scales 0 to 3 with the upper bits of scales 4 to 7 on top, bytes 8 to 11 the
    same of minima; bytes 12 to 15 hold the lower four bits of scales 4 to 7 and of minima 4 to 7.
    """
    scales, minima, low = head[..., 4:8], head[..., 8:12], head[..., 12:16]
    all_scales = jnp.concatenate((scales & 63, (low & 15) | ((scales >> 2) & 48)), axis=-1)
    all_minima = jnp.concatenate((minima & 63, (low >> 4) | ((minima >> 2) & 48)), axis=-1)
    return (
        half(head[..., :2]) * held(all_scales).astype(jnp.float32),
        half(head[..., 2:4]) * held(all_minima).astype(jnp.float32),
    )
