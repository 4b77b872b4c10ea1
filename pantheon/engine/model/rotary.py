"""Rotary position embedding (Su et al., 2021)."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from pantheon.engine.model.config import Pairing, RopeConfig


def rotate(
    x: Float[Array, "batch time heads head_dim"],
    positions: Int[Array, "batch time"],
    frequencies: Float[Array, " pairs"],
    rope: RopeConfig,
) -> Float[Array, "batch time heads head_dim"]:
    """Turn each pair of dimensions of each head by `position * frequency[pair]`.

    Which dimensions are pairs is the architecture's choice: files of llama hold the rows of
    queries and keys so that neighbours are, the others so that halves are. Dimensions past
    `2 * pairs` are left as they are (partial rotary).
    """
    pairs = frequencies.shape[0]
    angles = positions[..., None].astype(jnp.float32) * frequencies
    cosine = (jnp.cos(angles) * rope.magnitude)[:, :, None, :]
    sine = (jnp.sin(angles) * rope.magnitude)[:, :, None, :]
    turned, passed = x[..., : 2 * pairs], x[..., 2 * pairs :]
    if rope.pairing is Pairing.NEIGHBOURS:
        paired = turned.reshape(*turned.shape[:-1], pairs, 2)
        first, second = paired[..., 0], paired[..., 1]
    else:
        first, second = turned[..., :pairs], turned[..., pairs:]
    new_first = first * cosine - second * sine
    new_second = first * sine + second * cosine
    if rope.pairing is Pairing.NEIGHBOURS:
        turned = jnp.stack((new_first, new_second), axis=-1).reshape(turned.shape)
    else:
        turned = jnp.concatenate((new_first, new_second), axis=-1)
    return jnp.concatenate((turned, passed), axis=-1)
