"""The definition: token by token."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

_Token = tuple[
    Float[Array, "batch heads key_dim"],
    Float[Array, "batch heads key_dim"],
    Float[Array, "batch heads value_dim"],
    Float[Array, "batch heads"],
    Float[Array, "batch heads"],
    Bool[Array, " batch"],
]


def reference(
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
    if query.shape[1] == 1:
        first = (query[:, 0], key[:, 0], value[:, 0], log_decay[:, 0], strength[:, 0], valid[:, 0])
        state, mixed = _step(state, first)
        return mixed[:, None], state
    tokens: _Token = jax.tree.map(
        lambda part: jnp.moveaxis(part, 1, 0), (query, key, value, log_decay, strength, valid)
    )
    state, mixed = jax.lax.scan(_step, state, tokens)
    return jnp.moveaxis(mixed, 0, 1), state


def _step(
    state: Float[Array, "batch heads key_dim value_dim"], token: _Token
) -> tuple[Float[Array, "batch heads key_dim value_dim"], Float[Array, "batch heads value_dim"]]:
    query, key, value, log_decay, strength, valid = token
    decayed = state * jnp.exp(log_decay)[..., None, None]
    held = jnp.sum(decayed * key[..., None], axis=-2)
    change = (value - held) * strength[..., None]
    following = decayed + key[..., None] * change[..., None, :]
    mixed = jnp.sum(following * query[..., None], axis=-2)
    return jnp.where(valid[:, None, None, None], following, state), mixed
