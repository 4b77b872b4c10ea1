"""A decoder whose layers all attend and feed forward, by the native kernels in one call."""

from __future__ import annotations

from itertools import pairwise

from jaxtyping import Array, Float

from pantheon.engine.kernels.dense_layers import DenseLayer, DenseShape, dense_layers
from pantheon.engine.kernels.packed_matmul import InterleavedMatrix
from pantheon.engine.model.attention import AttentionParameters
from pantheon.engine.model.config import ModelConfig, Pairing
from pantheon.engine.model.kv_cache import LayerCache, ModelCache, Placement
from pantheon.engine.model.mlp import MlpParameters
from pantheon.engine.model.parameters import LayerParameters, Parameters


def is_dense_stack(parameters: Parameters, config: ModelConfig) -> bool:
    """Whether the native kernels can run all layers in one call."""
    if not config.native or config.gated_attention:
        return False
    return all(map(_is_dense, parameters.layers))


def _is_dense(layer: LayerParameters) -> bool:
    if not isinstance(layer.mixer, AttentionParameters):
        return False
    if not isinstance(layer.feed_forward, MlpParameters):
        return False
    mixer = layer.mixer
    matrices = (mixer.query, mixer.key, mixer.value, mixer.output, *layer.feed_forward)
    return all(isinstance(matrix, InterleavedMatrix) for matrix in matrices)


def dense_stack(
    parameters: Parameters,
    config: ModelConfig,
    turns: Float[Array, "batch time 2 turned"],
    x: Float[Array, "batch time hidden"],
    placement: Placement,
    cache: ModelCache,
) -> tuple[Float[Array, "batch time hidden"], ModelCache]:
    """See `hidden_states`.

    Args:
        turns: see `rotation`.
        x: the embeddings.
    """
    norms = [*(layer.mixer_norm for layer in parameters.layers), parameters.output_norm]
    layers = [
        _dense_layer(layer, following, held)
        for layer, (_, following), held in zip(
            parameters.layers, pairwise(norms), cache.kv, strict=True
        )
    ]
    normed, written = dense_layers(
        x,
        turns,
        placement.positions,
        placement.pages,
        placement.offsets,
        placement.block_tables,
        placement.lengths,
        placement.live,
        placement.wanted,
        norms[0],
        layers,
        DenseShape(
            inner=config.inner,
            heads=config.heads,
            kv_heads=config.kv_heads,
            head_dim=config.head_dim,
            neighbours=config.rope.pairing is Pairing.NEIGHBOURS,
            epsilon=config.rms_epsilon,
            window=config.sliding_window,
        ),
    )
    return normed, ModelCache(tuple(LayerCache(*pages) for pages in written))


def _dense_layer(
    layer: LayerParameters, next_norm: Float[Array, " hidden"], held: LayerCache
) -> DenseLayer:
    mixer, feed_forward = layer.mixer, layer.feed_forward
    assert isinstance(mixer, AttentionParameters)
    assert isinstance(feed_forward, MlpParameters)
    biases = (mixer.query_bias, mixer.key_bias, mixer.value_bias)
    head_norms = (mixer.query_norm, mixer.key_norm)
    return DenseLayer(
        mixer.query,
        mixer.key,
        mixer.value,
        mixer.output,
        *feed_forward,
        feed_forward_norm=layer.feed_forward_norm,
        next_norm=next_norm,
        biases=tuple(bias for bias in biases if bias is not None),
        head_norms=tuple(norm for norm in head_norms if norm is not None),
        key_pages=held.keys,
        value_pages=held.values,
    )
