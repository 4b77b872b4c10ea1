"""Bit fields and half-precision numbers inside packed blocks."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt8, UInt16, UInt32


def half(pair: UInt8[Array, "*blocks 2"]) -> Float[Array, "*blocks 1"]:
    """A little-endian float16 as float32, exactly; subnormals become normal float32 numbers."""
    value = jax.lax.bitcast_convert_type(pair, jnp.float16)
    return value.astype(jnp.float32)[..., None]


def words16(packed: UInt8[Array, "*blocks bytes"]) -> UInt16[Array, "*blocks words"]:
    """Little-endian 16-bit words."""
    pairs = packed.reshape(*packed.shape[:-1], packed.shape[-1] // 2, 2)
    return jax.lax.bitcast_convert_type(pairs, jnp.uint16)


def words32(packed: UInt8[Array, "*blocks bytes"]) -> UInt32[Array, "*blocks words"]:
    """Little-endian 32-bit words."""
    quads = packed.reshape(*packed.shape[:-1], packed.shape[-1] // 4, 4)
    return jax.lax.bitcast_convert_type(quads, jnp.uint32)


def fields(packed: UInt8[Array, "*blocks n"], width: int, count: int) -> jax.Array:
    """The bit fields of bytes, the lowest first: uint8 [*blocks, count, n].

    Shifted by a vector of amounts: a concatenation would be a branch in the innermost loop.
    """
    shifts = np.arange(count, dtype=np.uint8) * np.uint8(width)
    return packed[..., None, :] >> shifts[:, None] & np.uint8((1 << width) - 1)


def joined_fields(packed: UInt8[Array, "*blocks n"], width: int, count: int) -> jax.Array:
    """What `fields` gives, as one concatenation: faster in a loop that has no other."""
    mask = np.uint8((1 << width) - 1)
    return jnp.stack([packed >> np.uint8(width * i) & mask for i in range(count)], axis=-2)


def spread(packed: jax.Array, width: int, shifts: Sequence[int]) -> jax.Array:
    """Bit fields of integers, those of one integer side by side: [*blocks, n * shifts]."""
    moved = packed[..., None] >> np.asarray(shifts, packed.dtype)
    moved = moved & np.asarray((1 << width) - 1, packed.dtype)
    return moved.reshape(*packed.shape[:-1], packed.shape[-1] * len(shifts))


def held(values: UInt8[Array, "*shape"]) -> UInt8[Array, "*shape"]:
    """The same bytes, computed once.

    XLA would compute a scale again for every value that it multiplies. It does not fuse the
    conversion of pairs of bytes to words, so what goes through one is kept in memory.
    """
    words = jax.lax.bitcast_convert_type(jnp.stack((values, values), axis=-1), jnp.uint16)
    return words.astype(jnp.uint8)


def signed(packed: UInt8[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Bytes as two's complement numbers in float32."""
    return jax.lax.bitcast_convert_type(packed, jnp.int8).astype(jnp.float32)


def looked_up(index: UInt8[Array, "*shape"], table: Sequence[int]) -> Int[Array, "*shape"]:
    """Entries of a table of 16 signed bytes.

    Four words of four entries each are chosen from by comparison: unlike a gather from memory it
    runs on whole vectors.
    """
    words = np.asarray(table, np.int8).view(np.uint32)
    wide = index.astype(jnp.uint32)
    lower = jnp.where(wide < 4, words[0], words[1])
    upper = jnp.where(wide < 12, words[2], words[3])
    word = jnp.where(wide < 8, lower, upper) >> ((wide & 3) << 3)
    return jax.lax.bitcast_convert_type(word << 24, jnp.int32) >> 24
