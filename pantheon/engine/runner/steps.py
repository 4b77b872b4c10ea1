"""The two steps that are compiled: pure functions from arrays to arrays."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Int

from pantheon.engine.model import Architecture, KVCache, ModelConfig, Parameters
from pantheon.engine.model.kv_cache import place
from pantheon.engine.runner.sampling import SamplingBatch, sample


class DeviceState(NamedTuple):
    """What a step takes over from the one before. Donated to every step.

    Attributes:
        cache: keys and values of every sequence.
        last_tokens: the newest token of each row; one entry more than there are rows, which
            takes what padding writes. It stays on the device, so that a step can follow
            another whose tokens the host has not read yet.
    """

    cache: KVCache
    last_tokens: Int[Array, " rows_and_padding"]


def prefill_step(
    architecture: Architecture,
    config: ModelConfig,
    page_size: int,
    parameters: Parameters,
    state: DeviceState,
    tokens: Int[Array, " time"],
    start: Int[Array, ""],
    count: Int[Array, ""],
    block_table: Int[Array, " blocks"],
    row: Int[Array, ""],
    sampling: SamplingBatch,
) -> tuple[Int[Array, " 1"], DeviceState]:
    """Prefill the next tokens of one sequence and sample the token that follows them.

    Args:
        start: tokens of the sequence that the pages hold already.
        count: how many of `tokens` are real; the rest is padding.
        row: the sequence's row, whose newest token becomes the sampled one.
    """
    index = jnp.arange(tokens.shape[0], dtype=jnp.int32)
    placement = place(
        (start + index)[None],
        (index < count)[None],
        block_table[None],
        (start + count)[None],
        page_size=page_size,
        total_pages=state.cache[0].keys.shape[0],
    )
    hidden, cache = architecture.hidden_states(
        parameters, config, tokens[None], placement, state.cache
    )
    last = jnp.take(hidden[0], count - 1, axis=0, mode="clip")[None]
    sampled = sample(architecture.logits(parameters, config, last), sampling)
    return sampled, DeviceState(cache, state.last_tokens.at[row].set(sampled[0]))


def decode_step(
    architecture: Architecture,
    config: ModelConfig,
    page_size: int,
    parameters: Parameters,
    state: DeviceState,
    rows: Int[Array, " batch"],
    positions: Int[Array, " batch"],
    block_tables: Int[Array, "batch blocks"],
    sampling: SamplingBatch,
) -> tuple[Int[Array, " batch"], DeviceState]:
    """Feed each row's newest token and sample the next.

    Args:
        rows: the rows to decode; the last entry of `last_tokens` for padding.
        positions: position of the token that is fed.
    """
    padding = state.last_tokens.shape[0] - 1
    valid = rows < padding
    placement = place(
        positions[:, None],
        valid[:, None],
        block_tables,
        jnp.where(valid, positions + 1, 0),
        page_size=page_size,
        total_pages=state.cache[0].keys.shape[0],
    )
    tokens = state.last_tokens[rows][:, None]
    hidden, cache = architecture.hidden_states(parameters, config, tokens, placement, state.cache)
    sampled = sample(architecture.logits(parameters, config, hidden[:, 0]), sampling)
    return sampled, DeviceState(cache, state.last_tokens.at[rows].set(sampled))
