"""Rotary position embedding."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int


def inverse_frequencies(rotary_dim: int, base: float) -> Float[np.ndarray, " pairs"]:
    """`base ** (-2 i / rotary_dim)` for each pair i (Su et al., 2021), in float32."""
    exponents = np.arange(0, rotary_dim, 2, dtype=np.float64) / rotary_dim
    return (base**-exponents).astype(np.float32)


def rotate_interleaved(
    x: Float[Array, "batch time heads head_dim"],
    positions: Int[Array, "batch time"],
    frequencies: Float[Array, " pairs"],
) -> Float[Array, "batch time heads head_dim"]:
    """Rotate the pairs (x[2i], x[2i+1]) of each head by `position * frequency[i]`.

    GGUF files of the llama architecture hold the query and key rows in this order. Dimensions
    past `2 * pairs` are left as they are (partial rotary).
    """
    pairs = frequencies.shape[0]
    angles = positions[..., None].astype(jnp.float32) * frequencies
    cosine = jnp.cos(angles)[:, :, None, :]
    sine = jnp.sin(angles)[:, :, None, :]
    rotated, passed = x[..., : 2 * pairs], x[..., 2 * pairs :]
    paired = rotated.reshape(*rotated.shape[:-1], pairs, 2)
    even, odd = paired[..., 0], paired[..., 1]
    turned = jnp.stack((even * cosine - odd * sine, even * sine + odd * cosine), axis=-1)
    return jnp.concatenate((turned.reshape(rotated.shape), passed), axis=-1)
