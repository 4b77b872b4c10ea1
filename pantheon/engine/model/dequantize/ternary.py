"""Values of -1, 0 and 1 with one scale for 256: TQ1_0, TQ2_0 (ggml, ggml-quants.c)."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt8

from pantheon.engine.model.dequantize.bits import fields, half


def tq1_0(blocks: UInt8[Array, "*rows 54"]) -> Float[Array, "*rows 256"]:
    """48 bytes of five values each, 4 bytes of four, float16 scale. `scale * (q - 1)`.

    A byte is a fraction in base 3: multiplied by a power of 3 modulo 256, its next digit is
    what times 3 stands above the byte.
    """
    rows = blocks.shape[:-1]
    powers = np.asarray((1, 3, 9, 27, 81), np.uint8)[:, None]

    def digits(packed: UInt8[Array, "*rows n"], count: int) -> UInt8[Array, "*rows values"]:
        return (packed[..., None, :] * powers[:count]).reshape(*rows, count * packed.shape[-1])

    fractions = jnp.concatenate(
        (digits(blocks[..., :32], 5), digits(blocks[..., 32:48], 5), digits(blocks[..., 48:52], 4)),
        axis=-1,
    )
    values = (fractions.astype(jnp.uint16) * 3 >> 8).astype(jnp.float32) - 1
    return half(blocks[..., 52:]) * values


def tq2_0(blocks: UInt8[Array, "*rows 66"]) -> Float[Array, "*rows 256"]:
    """64 bytes of four values each, float16 scale. `scale * (q - 1)`."""
    rows = blocks.shape[:-1]
    packed = fields(blocks[..., :64].reshape(*rows, 2, 32), 2, 4)
    return half(blocks[..., 64:]) * (packed.astype(jnp.float32).reshape(*rows, 256) - 1)
