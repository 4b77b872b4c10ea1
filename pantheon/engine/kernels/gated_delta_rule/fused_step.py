"""One token a row, in Pallas: the state is read and written once.

The columns of a state, a value dimension each, do not see each other. A program has some of them,
for all key dimensions, so that everything between reading and writing is in registers.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array, Bool, Float

from pantheon.engine.kernels.pallas import (
    Ref,
    launch,
    masked_load,
    masked_store,
    power_of_two,
    span,
)


@dataclass(frozen=True, slots=True)
class StepTiles:
    """How a step is laid out on a GPU.

    Attributes:
        values: value dimensions of a program, a power of two from 16 on.
        warps: see `launch`.
    """

    values: int = 32
    warps: int = 4


def fused_step(
    query: Float[Array, "batch 1 heads key_dim"],
    key: Float[Array, "batch 1 heads key_dim"],
    value: Float[Array, "batch 1 heads value_dim"],
    log_decay: Float[Array, "batch 1 heads"],
    strength: Float[Array, "batch 1 heads"],
    valid: Bool[Array, "batch 1"],
    state: Float[Array, "batch heads key_dim value_dim"],
    *,
    tiles: StepTiles | None = None,
    interpret: bool = False,
) -> tuple[Float[Array, "batch 1 heads value_dim"], Float[Array, "batch heads key_dim value_dim"]]:
    """See `gated_delta_rule`.

    Args:
        tiles: None for those of `StepTiles()`.
        interpret: see `launch`.
    """
    batch, heads, key_dim, value_dim = state.shape
    tiles = tiles or StepTiles()
    keys, values = power_of_two(key_dim), min(tiles.values, power_of_two(value_dim))

    def gated_delta_step(
        query: Ref,
        key: Ref,
        value: Ref,
        log_decay: Ref,
        strength: Ref,
        valid: Ref,
        state: Ref,
        mixed: Ref,
        following: Ref,
    ) -> None:
        head, row = pl.program_id(1), pl.program_id(2)
        key_place = span(0, keys)
        value_place = span(pl.program_id(0) * values, values)
        has_key, has_value = key_place < key_dim, value_place < value_dim
        mask = has_key[:, None] & has_value[None, :]
        in_state = (row, head, key_place[:, None], value_place[None, :])
        in_keys, in_values = (row, head, key_place), (row, head, value_place)
        held_key = masked_load(key.at[in_keys], has_key).astype(jnp.float32)[:, None]
        asked = masked_load(query.at[in_keys], has_key).astype(jnp.float32)[:, None]
        wanted = masked_load(value.at[in_values], has_value).astype(jnp.float32)
        old = masked_load(state.at[in_state], mask)
        decayed = old * jnp.exp(log_decay[row, head].astype(jnp.float32))
        change = (wanted - jnp.sum(decayed * held_key, axis=0)) * strength[row, head].astype(
            jnp.float32
        )
        new = decayed + held_key * change[None, :]
        output = jnp.sum(new * asked, axis=0)
        masked_store(mixed.at[in_values], output.astype(mixed.dtype), has_value)
        masked_store(following.at[in_state], jnp.where(valid[row] != 0, new, old), mask)

    tokens = (query, key, value, log_decay, strength, valid.astype(jnp.int32))
    mixed, following = launch(
        gated_delta_step,
        (*(part.squeeze(1) for part in tokens), state),
        [
            jax.ShapeDtypeStruct((batch, heads, value_dim), value.dtype),  # type: ignore[no-untyped-call]
            jax.ShapeDtypeStruct(state.shape, state.dtype),  # type: ignore[no-untyped-call]
        ],
        grid=(-(-value_dim // values), heads, batch),
        warps=tiles.warps,
        stages=1,
        interpret=interpret,
    )
    return mixed[:, None], following
