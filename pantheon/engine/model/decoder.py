"""The decoder: layers of a mixer and a feed-forward part, the same for every architecture."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from pantheon.engine.kernels.dense_layers import DenseStack
from pantheon.engine.model.attention import AttentionParameters, attention
from pantheon.engine.model.config import ModelConfig
from pantheon.engine.model.dense_stack import dense_stack
from pantheon.engine.model.gated_delta_net import DeltaNetCache, gated_delta_net
from pantheon.engine.model.kv_cache import (
    LayerCache,
    ModelCache,
    Placement,
    RecurrentStates,
    StackedCache,
)
from pantheon.engine.model.linear import linear
from pantheon.engine.model.mlp import MlpParameters, swiglu
from pantheon.engine.model.moe import mixture
from pantheon.engine.model.norms import add_rms_norm, rms_norm
from pantheon.engine.model.packed import rows_of
from pantheon.engine.model.parameters import LayerParameters, Parameters
from pantheon.engine.model.rotary import rotation
from pantheon.engine.residency.thunks import layer_scope


def hidden_states(
    parameters: Parameters,
    config: ModelConfig,
    tokens: Int[Array, "batch time"],
    placement: Placement,
    cache: ModelCache,
) -> tuple[Float[Array, "batch time hidden"], ModelCache]:
    """Run a step's tokens through every layer and the final norm; what they leave is cached."""
    x = rows_of(parameters.embedding, tokens)
    turns = rotation(
        placement.positions,
        parameters.frequencies,
        config.rope,
        implementation=config.implementation,
    )
    if isinstance(parameters.layers, DenseStack):
        return dense_stack(parameters.layers, config, turns, x, placement, cache)
    assert parameters.output_norm is not None, "layers one by one are followed by their norm"
    return layer_by_layer(
        parameters.layers, parameters.output_norm, config, turns, x, placement, cache
    )


def layer_by_layer(
    layers: tuple[LayerParameters, ...],
    output_norm: Float[Array, " hidden"],
    config: ModelConfig,
    turns: Float[Array, "batch time 2 turned"],
    x: Float[Array, "batch time hidden"],
    placement: Placement,
    cache: ModelCache,
) -> tuple[Float[Array, "batch time hidden"], ModelCache]:
    """`hidden_states` by operations of their own, for layers of every kind.

    The layers are unrolled: a loop over stacked weights would copy each layer's slice of them.

    Args:
        turns: see `rotation`.
        x: the embeddings.
    """
    assert not isinstance(cache.kv, StackedCache), "layers of their own have pages of their own"
    kv, states = iter(cache.kv), _delta_net_caches(cache.recurrent)
    written: list[LayerCache] = []
    left: list[DeltaNetCache] = []
    norms = [*(layer.mixer_norm for layer in layers), output_norm]
    normed = rms_norm(
        x,
        norms[0],
        config.rms_epsilon,
        placement.live,
        implementation=config.implementation,
    )
    for index, (layer, norm) in enumerate(zip(layers, norms[1:], strict=True)):
        held = next(kv) if isinstance(layer.mixer, AttentionParameters) else next(states)
        # By their scopes XLA tells what became of the layers. They cost no trace of their own.
        with jax.named_scope(layer_scope(index)):
            x, normed, following = _decoder_layer(
                config, turns, layer, norm, x, normed, placement, held
            )
        if isinstance(following, LayerCache):
            written.append(following)
        else:
            left.append(following)
    recurrent = tuple(array for layer_states in left for array in layer_states)
    return normed, ModelCache(tuple(written), recurrent)


def recurrent_shapes(config: ModelConfig) -> tuple[tuple[int, ...], ...]:
    """Shapes of what one sequence leaves in the recurrent layers, two of each layer in order."""
    if config.delta_net is None:
        return ()
    return config.delta_net.state_shapes * sum(config.recurrent)


def _delta_net_caches(states: RecurrentStates) -> Iterator[DeltaNetCache]:
    pairs = zip(states[::2], states[1::2], strict=True)
    return (DeltaNetCache(inputs, layer_states) for inputs, layer_states in pairs)


@partial(jax.jit, static_argnums=0)
def _decoder_layer(
    config: ModelConfig,
    turns: Float[Array, "batch time 2 turned"],
    layer: LayerParameters,
    next_norm: Float[Array, " hidden"],
    x: Float[Array, "batch time hidden"],
    normed: Float[Array, "batch time hidden"],
    placement: Placement,
    cache: LayerCache | DeltaNetCache,
) -> tuple[
    Float[Array, "batch time hidden"],
    Float[Array, "batch time hidden"],
    LayerCache | DeltaNetCache,
]:
    """One layer, and the norm that follows it: of what is added to `x`, each sum has its norm.

    Jitted so that each kind is traced and lowered once; XLA inlines it.

    Args:
        next_norm: weight of the norm before the next layer, or before the head.
        normed: `x` through the layer's own first norm.
    """
    following: LayerCache | DeltaNetCache
    if isinstance(layer.mixer, AttentionParameters):
        assert isinstance(cache, LayerCache), "attention keeps keys and values"
        mixed, following = attention(layer.mixer, config, turns, normed, cache, placement)
    else:
        assert isinstance(cache, DeltaNetCache), "a delta net keeps states"
        mixed, following = gated_delta_net(layer.mixer, config, normed, cache, placement)
    implementation = config.implementation
    add_norm = partial(
        add_rms_norm,
        epsilon=config.rms_epsilon,
        live=placement.live,
        implementation=implementation,
    )
    x, normed = add_norm(x, mixed, layer.feed_forward_norm)
    if isinstance(layer.feed_forward, MlpParameters):
        made = swiglu(layer.feed_forward, normed, placement.live, implementation=implementation)
    else:
        assert config.moe is not None, "a mixture of experts has a shape"
        made = mixture(
            layer.feed_forward,
            config.moe,
            normed,
            placement.valid,
            implementation=implementation,
        )
    return *add_norm(x, made, next_norm), following


def logits(
    parameters: Parameters, config: ModelConfig, hidden: Float[Array, "batch hidden"]
) -> Float[Array, "batch vocabulary"]:
    """Scores of the next token; -inf for rows of the embedding that are no token (padding)."""
    scores = linear(hidden, parameters.head, implementation=config.implementation)
    if config.tokens == config.vocabulary:
        return scores
    is_token = jnp.arange(config.vocabulary) < config.tokens
    return jnp.where(is_token, scores, -jnp.inf)
