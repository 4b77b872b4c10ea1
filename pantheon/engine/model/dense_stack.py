"""A decoder whose layers all attend and feed forward, by the native kernels in one call."""

from __future__ import annotations

from itertools import pairwise

from jaxtyping import Array, Float

from pantheon.engine.kernels.dense_layers import DenseLayer, DenseShape, DenseStack, dense_layers
from pantheon.engine.kernels.packed_matmul import InterleavedMatrix
from pantheon.engine.model.attention import AttentionParameters
from pantheon.engine.model.config import ModelConfig, Pairing
from pantheon.engine.model.kv_cache import ModelCache, Placement, StackedCache
from pantheon.engine.model.mlp import MlpParameters
from pantheon.engine.model.parameters import LayerParameters, Parameters


def stacked(parameters: Parameters, config: ModelConfig) -> Parameters:
    """The same weights with all layers as one `DenseStack`, where the native kernels can run them.

    What they cannot stays as it is. Matrices are not copied.
    """
    if not config.native or config.gated_attention or parameters.memory is None:
        return parameters
    if isinstance(parameters.layers, DenseStack):
        return parameters
    assert parameters.output_norm is not None, "layers one by one are followed by their norm"
    norms = [*(layer.mixer_norm for layer in parameters.layers), parameters.output_norm]
    layers = [
        _dense_layer(layer, following)
        for layer, (_, following) in zip(parameters.layers, pairwise(norms), strict=True)
    ]
    dense = [layer for layer in layers if layer is not None]
    if len(dense) != len(layers):
        return parameters
    stack = DenseStack.of(parameters.memory, norms[0], dense)
    return parameters._replace(layers=stack, output_norm=None, memory=None)


def dense_stack(
    stack: DenseStack,
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
    assert isinstance(cache.kv, StackedCache), "a stack of layers has a stack of pages"
    normed, pages = dense_layers(
        x,
        turns,
        placement.positions,
        placement.pages,
        placement.offsets,
        placement.block_tables,
        placement.lengths,
        placement.live,
        placement.wanted,
        stack,
        cache.kv.pages,
        DenseShape(
            inner=config.inner,
            heads=config.heads,
            neighbours=config.rope.pairing is Pairing.NEIGHBOURS,
            epsilon=config.rms_epsilon,
            window=config.sliding_window,
        ),
    )
    return normed, ModelCache(StackedCache(pages))


def _dense_layer(layer: LayerParameters, next_norm: Float[Array, " hidden"]) -> DenseLayer | None:
    """A layer as the kernels take it; None where they do not."""
    mixer, feed_forward = layer.mixer, layer.feed_forward
    if not isinstance(mixer, AttentionParameters) or not isinstance(feed_forward, MlpParameters):
        return None
    weights = (mixer.query, mixer.key, mixer.value, mixer.output, *feed_forward)
    matrices = tuple(weight for weight in weights if isinstance(weight, InterleavedMatrix))
    if len(matrices) != len(weights):
        return None
    biases = (mixer.query_bias, mixer.key_bias, mixer.value_bias)
    head_norms = (mixer.query_norm, mixer.key_norm)
    return DenseLayer(
        matrices=matrices,
        feed_forward_norm=layer.feed_forward_norm,
        next_norm=next_norm,
        biases=tuple(bias for bias in biases if bias is not None),
        head_norms=tuple(norm for norm in head_norms if norm is not None),
    )
