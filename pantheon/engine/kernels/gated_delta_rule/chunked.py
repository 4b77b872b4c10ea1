"""Plain XLA: the tokens of a chunk at once, the chunks one after another.

Inside a chunk every token's change of the state depends on those before it through the products
of their keys: a triangular system, solved by forward substitution (Yang et al., 2024, sections
3.2 and 3.3; the inverse of the system's matrix can be huge where keys repeat, the substitution
stays stable). Everything else is matrix products.

Chunks stand on a fixed grid of the step's places, so that a sequence whose prefill is cut on
that grid computes the same bits.
"""

from __future__ import annotations

from typing import Final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

CHUNK: Final = 64
"""Tokens of a chunk, as many as between two places at which a prompt may be cut."""

_Chunk = tuple[
    Float[Array, "batch heads chunk key_dim"],
    Float[Array, "batch heads chunk key_dim"],
    Float[Array, "batch heads chunk value_dim"],
    Float[Array, "batch heads chunk"],
    Float[Array, "batch heads chunk"],
    Bool[Array, " batch"],
]
_HIGHEST = jax.lax.Precision.HIGHEST


def chunked(
    query: Float[Array, "batch time heads key_dim"],
    key: Float[Array, "batch time heads key_dim"],
    value: Float[Array, "batch time heads value_dim"],
    log_decay: Float[Array, "batch time heads"],
    strength: Float[Array, "batch time heads"],
    valid: Bool[Array, "batch time"],
    state: Float[Array, "batch heads key_dim value_dim"],
) -> tuple[
    Float[Array, "batch time heads value_dim"], Float[Array, "batch heads key_dim value_dim"]
]:
    """See `gated_delta_rule`."""
    batch, time = valid.shape
    count = -(-time // CHUNK)
    missing = count * CHUNK - time

    def split(part: Float[Array, "batch time heads *dim"]) -> Float[Array, "chunks batch ..."]:
        """Chunks in front, heads before the places of a chunk; the last one is filled up."""
        padded = jnp.pad(part, ((0, 0), (0, missing)) + ((0, 0),) * (part.ndim - 2))
        chunks = padded.reshape(batch, count, CHUNK, *part.shape[2:])
        return jnp.moveaxis(jnp.moveaxis(chunks, 1, 0), 2, 3)

    # A token without decay and without strength changes nothing.
    real = valid[:, :, None]
    some = jnp.pad(valid, ((0, 0), (0, missing))).reshape(batch, count, CHUNK).any(axis=2)
    state, mixed = jax.lax.scan(
        _add_chunk,
        state,
        (
            split(query),
            split(key),
            split(value),
            split(jnp.where(real, log_decay, 0)),
            split(jnp.where(real, strength, 0)),
            some.T,
        ),
    )
    mixed = jnp.moveaxis(mixed, 3, 2).swapaxes(0, 1)
    return mixed.reshape(batch, count * CHUNK, *mixed.shape[3:])[:, :time], state


def _add_chunk(
    state: Float[Array, "batch heads key_dim value_dim"], chunk: _Chunk
) -> tuple[
    Float[Array, "batch heads key_dim value_dim"],
    Float[Array, "batch heads chunk value_dim"],
]:
    query, key, value, log_decay, strength, some = chunk
    total = jnp.cumsum(log_decay, axis=-1)
    since_start = jnp.exp(total)[..., None]
    index = jnp.arange(CHUNK)
    earlier, seen = index[:, None] > index, index[:, None] >= index
    # Above the diagonal the exponent is positive and may overflow; nothing there is used.
    between = jnp.exp(jnp.where(seen, total[..., :, None] - total[..., None, :], -jnp.inf))

    products = jnp.einsum("bhik,bhjk->bhij", key, key, precision=_HIGHEST)
    system = jnp.where(earlier, products * between * strength[..., None], 0)
    held = jnp.einsum("bhik,bhkv->bhiv", key * since_start, state, precision=_HIGHEST)
    changes = _substituted(system, (value - held) * strength[..., None])

    scores = jnp.einsum("bhik,bhjk->bhij", query, key, precision=_HIGHEST) * between
    mixed = jnp.einsum("bhik,bhkv->bhiv", query * since_start, state, precision=_HIGHEST)
    mixed = mixed + jnp.einsum("bhij,bhjv->bhiv", scores, changes, precision=_HIGHEST)
    until_end = jnp.exp(total[..., -1:] - total)[..., None]
    following = state * since_start[..., -1:, :] + jnp.einsum(
        "bhik,bhiv->bhkv", key * until_end, changes, precision=_HIGHEST
    )
    return jnp.where(some[:, None, None, None], following, state), mixed


def _substituted(
    system: Float[Array, "batch heads chunk chunk"], target: Float[Array, "batch heads chunk dim"]
) -> Float[Array, "batch heads chunk dim"]:
    """What `system` plus the identity maps to `target`, row by row; `system` is strictly lower.

    Measured on CPU with 32 heads, XLA's own triangular solve takes nine times as long.
    """

    def solve_row(
        row: Int[Array, ""], solved: Float[Array, "batch heads chunk dim"]
    ) -> Float[Array, "batch heads chunk dim"]:
        factors = jax.lax.dynamic_slice_in_dim(system, row, 1, axis=2)
        earlier = jnp.einsum("bhij,bhjv->bhiv", factors, solved, precision=_HIGHEST)
        own = jax.lax.dynamic_slice_in_dim(solved, row, 1, axis=2) - earlier
        return jax.lax.dynamic_update_slice_in_dim(solved, own, row, axis=2)

    solved: jax.Array = jax.lax.fori_loop(1, CHUNK, solve_row, target)
    return solved
