"""The full-attention layer: projections, rotary embedding, paged attention."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Array, Float

from pantheon.engine.kernels.paged_attention import paged_attention
from pantheon.engine.model.config import ModelConfig
from pantheon.engine.model.kv_cache import LayerCache, Placement, write
from pantheon.engine.model.linear import linear
from pantheon.engine.model.rotary import rotate_interleaved


class AttentionParameters(NamedTuple):
    """Weights of one attention layer."""

    query: Float[Array, "query_rows hidden"]
    key: Float[Array, "kv_rows hidden"]
    value: Float[Array, "kv_rows hidden"]
    output: Float[Array, "hidden query_rows"]


def attention(
    parameters: AttentionParameters,
    config: ModelConfig,
    frequencies: Float[Array, " pairs"],
    x: Float[Array, "batch time hidden"],
    cache: LayerCache,
    placement: Placement,
) -> tuple[Float[Array, "batch time hidden"], LayerCache]:
    """Causal grouped-query attention of a step's tokens over the pages of their sequences."""
    batch, time, _ = x.shape
    query = linear(x, parameters.query).reshape(batch, time, config.heads, config.head_dim)
    key = linear(x, parameters.key).reshape(batch, time, config.kv_heads, config.head_dim)
    value = linear(x, parameters.value).reshape(batch, time, config.kv_heads, config.head_dim)
    query = rotate_interleaved(query, placement.positions, frequencies)
    key = rotate_interleaved(key, placement.positions, frequencies)
    cache = write(cache, placement, key, value)
    mixed = paged_attention(
        query,
        cache.keys,
        cache.values,
        placement.block_tables,
        placement.positions,
        placement.lengths,
        scale=config.head_dim**-0.5,
    )
    return linear(mixed.reshape(batch, time, -1), parameters.output), cache
