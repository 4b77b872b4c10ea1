"""The full-attention layer: projections, rotary embedding, paged attention."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from pantheon.engine.kernels.paged_attention import paged_attention
from pantheon.engine.model.config import ModelConfig
from pantheon.engine.model.fixed_batch import in_fixed_batch
from pantheon.engine.model.kv_cache import LayerCache, Placement, write
from pantheon.engine.model.linear import linear, linears
from pantheon.engine.model.norms import rms_norm
from pantheon.engine.model.packed import Weight
from pantheon.engine.model.page_memory import in_memory_of, on_die
from pantheon.engine.model.rotary import rotate


class AttentionParameters(NamedTuple):
    """Weights of one attention layer.

    Attributes:
        query: a row for each dimension of each head; with a gated output twice as many, the
            rows of a head's gate after those of its query.
        query_bias, key_bias, value_bias: None for an architecture without them.
        query_norm, key_norm: weights of a norm over each head; None likewise.
    """

    query: Weight
    key: Weight
    value: Weight
    output: Weight
    query_bias: Float[Array, " query_rows"] | None = None
    key_bias: Float[Array, " kv_rows"] | None = None
    value_bias: Float[Array, " kv_rows"] | None = None
    query_norm: Float[Array, " head_dim"] | None = None
    key_norm: Float[Array, " head_dim"] | None = None


def attention(
    parameters: AttentionParameters,
    config: ModelConfig,
    rotation: Float[Array, "batch time 2 turned"],
    x: Float[Array, "batch time hidden"],
    cache: LayerCache,
    placement: Placement,
) -> tuple[Float[Array, "batch time hidden"], LayerCache]:
    """Causal grouped-query attention of a step's tokens over the pages of their sequences."""
    live, implementation = placement.live, config.implementation
    projected = linears(
        x,
        (parameters.query, parameters.key, parameters.value),
        live,
        implementation=implementation,
    )
    query = _heads(projected[0], parameters.query_bias, config.heads)
    key = _heads(projected[1], parameters.key_bias, config.kv_heads)
    value = _heads(projected[2], parameters.value_bias, config.kv_heads)
    gate = None
    if config.gated_attention:
        query, gate = jnp.split(query, 2, axis=-1)
    norm = partial(rms_norm, epsilon=config.rms_epsilon, live=live, implementation=implementation)
    if parameters.query_norm is not None:
        query = norm(query, parameters.query_norm)
    if parameters.key_norm is not None:
        key = norm(key, parameters.key_norm)
    query = rotate(query, rotation, config.rope, live, implementation=implementation)
    key = rotate(key, rotation, config.rope, live, implementation=implementation)
    written = write(on_die(cache), placement, key, value, implementation=implementation)
    mixed = paged_attention(
        query,
        written.keys,
        written.values,
        placement.block_tables,
        placement.positions,
        placement.lengths,
        live,
        scale=config.head_dim**-0.5,
        window=config.sliding_window,
        implementation=implementation,
    )
    if gate is not None:
        mixed = in_fixed_batch(
            lambda mixed, gate: mixed * jax.nn.sigmoid(gate),
            mixed,
            gate,
            fixed=implementation.has_kernels and x.shape[1] == 1,
        )
    mixed = mixed.reshape(*x.shape[:2], -1)
    out = linear(mixed, parameters.output, live, implementation=implementation)
    return out, in_memory_of(cache, written)


def _heads(
    projected: Float[Array, "batch time rows"], bias: Float[Array, " rows"] | None, heads: int
) -> Float[Array, "batch time heads row_dim"]:
    """What was projected, for each head."""
    if bias is not None:
        projected = projected + bias
    return projected.reshape(*projected.shape[:2], heads, -1)
