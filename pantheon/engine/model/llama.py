"""The forward pass of the llama architecture."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from pantheon.engine.model.attention import attention
from pantheon.engine.model.config import ModelConfig
from pantheon.engine.model.kv_cache import KVCache, Placement
from pantheon.engine.model.linear import linear
from pantheon.engine.model.mlp import swiglu
from pantheon.engine.model.norms import rms_norm
from pantheon.engine.model.parameters import Parameters


def hidden_states(
    parameters: Parameters,
    config: ModelConfig,
    tokens: Int[Array, "batch time"],
    placement: Placement,
    cache: KVCache,
) -> tuple[Float[Array, "batch time hidden"], KVCache]:
    """Run a step's tokens through every layer and the final norm; their KV enters the cache.

    The layers are unrolled: a loop over stacked weights would copy each layer's slice of them.
    """
    x = parameters.embedding[tokens]
    written = []
    for layer, layer_cache in zip(parameters.layers, cache, strict=True):
        mixed, layer_cache = attention(
            layer.attention,
            config,
            parameters.frequencies,
            rms_norm(x, layer.attention_norm, config.rms_epsilon),
            layer_cache,
            placement,
        )
        x = x + mixed
        x = x + swiglu(layer.mlp, rms_norm(x, layer.mlp_norm, config.rms_epsilon))
        written.append(layer_cache)
    return rms_norm(x, parameters.output_norm, config.rms_epsilon), tuple(written)


def logits(
    parameters: Parameters, config: ModelConfig, hidden: Float[Array, "batch hidden"]
) -> Float[Array, "batch vocabulary"]:
    """Scores of the next token; -inf for rows of the embedding that are no token (padding)."""
    scores = linear(hidden, parameters.head)
    is_token = jnp.arange(config.vocabulary) < config.tokens
    return jnp.where(is_token, scores, -jnp.inf)
