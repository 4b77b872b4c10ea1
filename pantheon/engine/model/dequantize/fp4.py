"""Four-bit floats with a scale of 8 bits: MXFP4, NVFP4 (ggml, ggml-quants.c and ggml-impl.h)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from gguf.quants import MXFP4, NVFP4
from jaxtyping import Array, Float, UInt8, UInt32

from pantheon.engine.model.dequantize.bits import joined_fields, looked_up

_RAISED = 64
"""Power of two by which products that may be subnormal are computed too large."""


def mxfp4(blocks: UInt8[Array, "*rows 17"]) -> Float[Array, "*rows 32"]:
    """Exponent e; 16 bytes of two values each. `2 ** (e - 128) * table[q]`."""
    exponent = blocks[..., :1].astype(jnp.uint32)
    values = looked_up(joined_fields(blocks[..., 1:], 4, 2), MXFP4.kvalues).astype(jnp.float32)
    # XLA flushes subnormal numbers to zero on CPU. The smallest scales are such numbers, and so
    # are products with them: those are computed with a larger scale and brought down as bits.
    tiny = exponent < 2
    scale = _power_of_two(jnp.where(tiny, exponent + _RAISED, exponent) - 1)
    products = (scale[..., None] * values).reshape(*blocks.shape[:-1], 32)
    return jnp.where(tiny, _lowered(products), products)


def nvfp4(blocks: UInt8[Array, "*rows 36"]) -> Float[Array, "*rows 64"]:
    """Four scales of 16 values each, 4 bits exponent and 3 bits mantissa; for each 8 bytes of two
    values. `scale / 2 * table[q]`."""
    rows = blocks.shape[:-1]
    packed = blocks[..., :4].astype(jnp.uint32)
    exponent, mantissa = (packed >> 3) & 15, (packed & 7).astype(jnp.float32)
    scale = jnp.where(
        exponent == 0,
        mantissa * np.float32(2.0**-10),
        (8 + mantissa) * _power_of_two(exponent + (127 - 7 - 3 - 1)),
    )
    # ggml reads the pattern of NaN as zero.
    scale = jnp.where(packed == 0x7F, 0, scale)[..., None]
    codes = joined_fields(blocks[..., 4:].reshape(*rows, 4, 8), 4, 2)
    values = looked_up(codes, NVFP4.kvalues)
    scaled = scale * values.astype(jnp.float32).reshape(*rows, 4, 16)
    return scaled.reshape(*rows, 64)


def _power_of_two(biased: UInt32[Array, "*shape"]) -> Float[Array, "*shape"]:
    """2 ** (biased - 127), for 1 to 254."""
    return jax.lax.bitcast_convert_type(biased << 23, jnp.float32)


def _lowered(values: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Values times 2 ** -64, subnormal results included; those must be exact."""
    bits = jax.lax.bitcast_convert_type(values, jnp.uint32)
    sign, exponent = bits & np.uint32(1 << 31), (bits >> 23) & 255
    mantissa = (bits & np.uint32((1 << 23) - 1)) | np.uint32(1 << 23)
    # 24 bits of mantissa stand for 2 ** (exponent - 64 - 127 - 23).
    subnormal = mantissa >> jnp.minimum(np.uint32(_RAISED + 1) - exponent, 31)
    normal = (bits & np.uint32(0x7FFFFFFF)) - np.uint32(_RAISED << 23)
    magnitude = jnp.where(exponent > _RAISED, normal, subnormal)
    magnitude = jnp.where(exponent == 0, 0, magnitude)
    return jax.lax.bitcast_convert_type(sign | magnitude, jnp.float32)
