"""Rotary position embedding (Su et al., 2021)."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from pantheon.engine.kernels import row_wise
from pantheon.engine.kernels.implementation import Implementation
from pantheon.engine.model.config import Pairing, RopeConfig


def rotation(
    positions: Int[Array, "batch time"],
    frequencies: Float[Array, " pairs"],
    rope: RopeConfig,
    *,
    implementation: Implementation = Implementation.XLA,
) -> Float[Array, "batch time 2 turned"]:
    """By what `rotate` turns the heads of each token: the same in every layer.

    Cosines and sines of `position * frequency[pair]` for each dimension; the sine of the first
    dimension of a pair is negative.

    Args:
        implementation: see `row_wise.CHOSEN`.
    """
    neighbours = rope.pairing is Pairing.NEIGHBOURS
    if implementation is Implementation.NATIVE:
        return row_wise.rotation(
            positions, frequencies, magnitude=rope.magnitude, neighbours=neighbours
        )
    angles = positions[..., None].astype(jnp.float32) * frequencies
    cosine, sine = jnp.cos(angles) * rope.magnitude, jnp.sin(angles) * rope.magnitude
    pairs = jnp.stack(
        (jnp.stack((cosine, cosine), axis=-1), jnp.stack((-sine, sine), axis=-1)), axis=2
    )
    if not neighbours:
        pairs = jnp.swapaxes(pairs, -1, -2)
    return pairs.reshape(*positions.shape, 2, -1)


def rotate(
    x: Float[Array, "batch time heads head_dim"],
    by: Float[Array, "batch time 2 turned"],
    rope: RopeConfig,
    live: Int[Array, " bounds"] | None = None,
    *,
    implementation: Implementation = Implementation.XLA,
) -> Float[Array, "batch time heads head_dim"]:
    """Turn each pair of dimensions of each head by what `rotation` gave for its token.

    Which dimensions are pairs is the architecture's choice: files of llama hold the rows of
    queries and keys so that neighbours are, the others so that halves are. Dimensions past
    those that are turned are left as they are (partial rotary).

    Args:
        live: which tokens are no padding, see `row_wise`. What comes out for padding means nothing.
        implementation: see `row_wise.CHOSEN`.
    """
    neighbours = rope.pairing is Pairing.NEIGHBOURS
    if implementation is Implementation.NATIVE:
        return row_wise.rotate(x, by, live, neighbours=neighbours)
    if implementation.is_gpu:
        # Imported here: Pallas would take a fifth of a second of every start on a CPU.
        from pantheon.engine.kernels.row_wise import pallas

        return pallas.rotate(
            x, by, live, neighbours=neighbours, interpret=implementation.is_interpreted
        )
    turned, passed = x[..., : by.shape[-1]], x[..., by.shape[-1] :]
    shape = (-1, 2) if neighbours else (2, -1)
    pairs = turned.reshape(*turned.shape[:-1], *shape)
    partners = jnp.flip(pairs, axis=-1 if neighbours else -2).reshape(turned.shape)
    turned = turned * by[:, :, 0, None] + partners * by[:, :, 1, None]
    return jnp.concatenate((turned, passed), axis=-1)
