"""Values from codebooks of eight or four: IQ2_*, IQ3_*, IQ1_* (ggml, ggml-quants.c)."""

from __future__ import annotations

from functools import cache
from typing import Final

import jax
import jax.numpy as jnp
import numpy as np
from gguf import quants
from jaxtyping import Array, Float, UInt8, UInt16, UInt32
from numpy.typing import NDArray

from pantheon.engine.model.dequantize.bits import (
    half,
    held,
    spread,
    words16,
    words32,
)

_SIGN_SHIFTS: Final = (0, 7, 14, 21)


def iq2_xxs(blocks: UInt8[Array, "*rows 66"]) -> Float[Array, "*rows 256"]:
    """float16 scale; for each 32 values four codes of 8 bits, four sign patterns of 7, a scale of
    4. `scale * (0.5 + scales) / 4 * code * sign`."""
    rows = blocks.shape[:-1]
    halves = blocks[..., 2:].reshape(*rows, 8, 2, 4)
    control = words32(halves[..., 1, :])[..., 0]
    scales = half(blocks[..., :2]) * (0.5 + (control >> 28).astype(jnp.float32)) * 0.25
    codes = _codes("IQ2_XXS", halves[..., 0, :].reshape(*rows, 32))
    return _scaled(scales, codes, _even_signs(control))


def iq2_xs(blocks: UInt8[Array, "*rows 74"]) -> Float[Array, "*rows 256"]:
    """float16 scale; 32 words of a code of 9 bits and a sign pattern of 7; a scale of 4 bits for
    each 16 values. `scale * (0.5 + scales) / 4 * code * sign`."""
    words = words16(blocks[..., 2:66])
    scales = _quarter_scales(blocks[..., :2], blocks[..., 66:])
    signs = _with_parity((words >> 9).astype(jnp.uint8))
    return _scaled(scales, _codes("IQ2_XS", words & 511), signs)


def iq2_s(blocks: UInt8[Array, "*rows 82"]) -> Float[Array, "*rows 256"]:
    """float16 scale; lower 8 bits of 32 codes; 32 bytes of signs; upper two bits of the codes; a
    scale of 4 bits for each 16 values. `scale * (0.5 + scales) / 4 * code * sign`."""
    index = _index(blocks[..., 2:34], spread(blocks[..., 66:74], 2, (0, 2, 4, 6)))
    scales = _quarter_scales(blocks[..., :2], blocks[..., 74:])
    return _scaled(scales, _codes("IQ2_S", index), blocks[..., 34:66])


def iq3_xxs(blocks: UInt8[Array, "*rows 98"]) -> Float[Array, "*rows 256"]:
    """float16 scale; 64 codes of 8 bits; for each 32 values four sign patterns of 7 bits and a
    scale of 4. `scale * (0.5 + scales) / 2 * code * sign`."""
    control = words32(blocks[..., 66:])
    scales = half(blocks[..., :2]) * (0.5 + (control >> 28).astype(jnp.float32)) * 0.5
    codes = _codes("IQ3_XXS", blocks[..., 2:66])
    return _scaled(scales, codes, _even_signs(control))


def iq3_s(blocks: UInt8[Array, "*rows 110"]) -> Float[Array, "*rows 256"]:
    """float16 scale; lower 8 bits of 64 codes, then their ninth bits; 32 bytes of signs; a scale
    of 4 bits for each 32 values. `scale * (1 + 2 * scales) * code * sign`."""
    index = _index(blocks[..., 2:66], spread(blocks[..., 66:74], 1, range(8)))
    scales = 1 + 2 * held(spread(blocks[..., 106:], 4, (0, 4))).astype(jnp.float32)
    return _scaled(half(blocks[..., :2]) * scales, _codes("IQ3_S", index), blocks[..., 74:106])


def iq1_s(blocks: UInt8[Array, "*rows 50"]) -> Float[Array, "*rows 256"]:
    """float16 scale; lower 8 bits of 32 codes; for each 32 values a word of the codes' upper three
    bits, a scale of 3 and the sign of 1/8. `scale * (2 * scales + 1) * (code +- 1/8)`."""
    rows = blocks.shape[:-1]
    words = words16(blocks[..., 34:])
    scales = half(blocks[..., :2]) * (2 * ((words >> 12) & 7) + 1).astype(jnp.float32)
    index = _index(blocks[..., 2:34], spread(words, 3, (0, 3, 6, 9)))
    delta = jnp.where(words >> 15, np.float32(-0.125), np.float32(0.125))
    values = _codes("IQ1_S", index).reshape(*rows, 8, 32) + delta[..., None]
    return (scales[..., None] * values).reshape(*rows, 256)


def iq1_m(blocks: UInt8[Array, "*rows 56"]) -> Float[Array, "*rows 256"]:
    """Lower 8 bits of 32 codes; for each the upper three bits and the sign of 1/8; four words of
    four scales of 3 bits for 16 values each, whose topmost bits are a float16 scale of them.
    `scale * (2 * scales + 1) * (code +- 1/8)`."""
    rows = blocks.shape[:-1]
    words = words16(blocks[..., 48:])
    tops = words >> 12 << np.asarray((0, 4, 8, 12), np.uint16)
    bits = jax.lax.reduce(tops, np.uint16(0), jax.lax.bitwise_or, (tops.ndim - 1,))
    scale = jax.lax.bitcast_convert_type(bits, jnp.float16).astype(jnp.float32)[..., None]
    fine = held(spread(words, 3, (0, 3, 6, 9)).astype(jnp.uint8)).astype(jnp.float32)
    scales = scale * (2 * fine + 1)
    upper = spread(blocks[..., 32:48], 4, (0, 4))
    delta = jnp.where(upper & 8, np.float32(-0.125), np.float32(0.125))
    codes = _codes("IQ1_M", _index(blocks[..., :32], upper & 7)).reshape(*rows, 32, 8)
    values = (codes + delta[..., None]).reshape(*rows, 16, 16)
    return (scales[..., None] * values).reshape(*rows, 256)


def _index(
    low: UInt8[Array, "*rows codes"],
    high: UInt8[Array, "*rows codes"] | UInt16[Array, "*rows codes"],
) -> UInt16[Array, "*rows codes"]:
    return low.astype(jnp.uint16) | (high.astype(jnp.uint16) << 8)


@cache
def _codebook(name: str) -> NDArray[np.float32]:
    """The codebook of a type as the gguf package has it: float32 [codes, values of a code]."""
    type_ = getattr(quants, name)
    type_.init_grid()
    return np.asarray(type_.grid, np.float32).reshape(type_.grid_shape)


def _codes(
    name: str, index: UInt8[Array, "*rows codes"] | UInt16[Array, "*rows codes"]
) -> Float[Array, "*rows values"]:
    """The values of codes, one after the other."""
    book = jnp.asarray(_codebook(name))
    values = book[index.astype(jnp.int32)]
    return values.reshape(*index.shape[:-1], index.shape[-1] * book.shape[1])


def _with_parity(signs: UInt8[Array, "*shape"]) -> UInt8[Array, "*shape"]:
    """Seven signs with the eighth that makes their number even."""
    return held(signs | (jax.lax.population_count(signs) << 7))


def _even_signs(control: UInt32[Array, "*rows 8"]) -> UInt8[Array, "*rows 32"]:
    """The four sign patterns in the lower 28 bits of each word, each completed to eight."""
    return _with_parity(spread(control, 7, _SIGN_SHIFTS).astype(jnp.uint8))


def _quarter_scales(
    scale: UInt8[Array, "*rows 2"], scales: UInt8[Array, "*rows 8"]
) -> Float[Array, "*rows 16"]:
    return half(scale) * (0.5 + held(spread(scales, 4, (0, 4))).astype(jnp.float32)) * 0.25


def _scaled(
    scales: Float[Array, "*rows groups"],
    values: Float[Array, "*rows 256"],
    signs: UInt8[Array, "*rows 32"],
) -> Float[Array, "*rows 256"]:
    """Values times the scale of their group, negative where their sign bit is set."""
    rows = values.shape[:-1]
    negative = spread(signs, 1, range(8))
    signed = jnp.where(negative, -values, values)
    return (scales[..., None] * signed.reshape(*rows, scales.shape[-1], -1)).reshape(*rows, 256)
