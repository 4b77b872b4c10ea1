"""The forward pass of the llama architecture."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from pantheon.engine.model.attention import attention
from pantheon.engine.model.config import ModelConfig
from pantheon.engine.model.kv_cache import LayerCache, ModelCache, Placement
from pantheon.engine.model.linear import linear
from pantheon.engine.model.mlp import swiglu
from pantheon.engine.model.norms import rms_norm
from pantheon.engine.model.parameters import LayerParameters, Parameters


def hidden_states(
    parameters: Parameters,
    config: ModelConfig,
    tokens: Int[Array, "batch time"],
    placement: Placement,
    cache: ModelCache,
) -> tuple[Float[Array, "batch time hidden"], ModelCache]:
    """Run a step's tokens through every layer and the final norm; their KV enters the cache.

    The layers are unrolled: a loop over stacked weights would copy each layer's slice of them.
    """
    x = parameters.embedding[tokens]
    written = []
    for layer, layer_cache in zip(parameters.layers, cache.kv, strict=True):
        x, layer_cache = _decoder_layer(
            config, parameters.frequencies, layer, x, placement, layer_cache
        )
        written.append(layer_cache)
    return rms_norm(x, parameters.output_norm, config.rms_epsilon), cache._replace(
        kv=tuple(written)
    )


@partial(jax.jit, static_argnums=0)
def _decoder_layer(
    config: ModelConfig,
    frequencies: Float[Array, " pairs"],
    layer: LayerParameters,
    x: Float[Array, "batch time hidden"],
    placement: Placement,
    cache: LayerCache,
) -> tuple[Float[Array, "batch time hidden"], LayerCache]:
    """One layer. Jitted so that it is traced and lowered once, not once a layer; XLA inlines it."""
    normed = rms_norm(x, layer.attention_norm, config.rms_epsilon)
    mixed, cache = attention(layer.attention, config, frequencies, normed, cache, placement)
    x = x + mixed
    x = x + swiglu(layer.mlp, rms_norm(x, layer.mlp_norm, config.rms_epsilon))
    return x, cache


def logits(
    parameters: Parameters, config: ModelConfig, hidden: Float[Array, "batch hidden"]
) -> Float[Array, "batch vocabulary"]:
    """Scores of the next token; -inf for rows of the embedding that are no token (padding)."""
    scores = linear(hidden, parameters.head)
    is_token = jnp.arange(config.vocabulary) < config.tokens
    return jnp.where(is_token, scores, -jnp.inf)
