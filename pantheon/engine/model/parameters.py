"""The weights of a decoder."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, UInt8

from pantheon.engine.kernels.dense_layers import DenseStack
from pantheon.engine.model.attention import AttentionParameters
from pantheon.engine.model.config import ModelConfig
from pantheon.engine.model.frequencies import frequencies
from pantheon.engine.model.gated_delta_net import DeltaNetParameters
from pantheon.engine.model.mlp import MlpParameters
from pantheon.engine.model.moe import MoeParameters
from pantheon.engine.model.packed import Weight
from pantheon.engine.model.read import WeightReader
from pantheon.engine.model.read_rope import LONG_FACTORS, SHORT_FACTORS
from pantheon.engine.model.sharding import Shards

_FACTORS = "rope_freqs.weight"


class LayerParameters(NamedTuple):
    """Weights of one decoder layer."""

    mixer_norm: Float[Array, " hidden"]
    mixer: AttentionParameters | DeltaNetParameters
    feed_forward_norm: Float[Array, " hidden"]
    feed_forward: MlpParameters | MoeParameters


class Parameters(NamedTuple):
    """Weights of a decoder.

    Attributes:
        layers: one by one, or as one call of the native kernels takes them.
        output_norm: weight of the norm before the head; None where `layers` has it.
        head: the output matrix; that of `embedding` where the file ties them.
        frequencies: rotary frequencies, the file's own factors applied.
        memory: the matrices of all layers as one array, which shares their memory; None where they
            do not lie together.
    """

    embedding: Weight
    layers: tuple[LayerParameters, ...] | DenseStack
    output_norm: Float[Array, " hidden"] | None
    head: Weight
    frequencies: Float[Array, " pairs"]
    memory: UInt8[Array, " bytes"] | None = None

    @property
    def is_stacked(self) -> bool:
        """Whether all layers are one call, over one array of pages."""
        return isinstance(self.layers, DenseStack)


ReadLayer = Callable[[WeightReader, ModelConfig, int], LayerParameters]
"""Reads the layer of a number: what an architecture's files call its tensors."""


def read_parameters(
    reader: WeightReader,
    config: ModelConfig,
    progress: Callable[[int, int], None],
    read_layer: ReadLayer,
) -> Parameters:
    """Put every tensor on the reader's dies, or the default device, matrices as they are packed.

    Blocks past the model's own layers predict further tokens (`nextn_predict_layers`); they are
    left in the file.

    Args:
        progress: called with (layers read, layers in all) after each layer.

    Raises:
        GGUFError: a tensor is missing, is not known, or has another shape than the metadata
            asks for.
    """

    shards = reader.shards

    def read(index: int) -> LayerParameters:
        layer = layer_on_dies(read_layer(reader, config, index), shards)
        progress(index + 1, config.layers)
        return layer

    rotary = _frequencies(reader, config)
    embedding = reader.weight("token_embd.weight", config.vocabulary, config.hidden, apart=True)
    if shards is not None:
        rotary, embedding = shards.whole(rotary), shards.vocabulary(embedding)
    tied = "output.weight" not in reader
    output_norm = reader.vector("output_norm.weight", config.hidden)
    head = embedding
    if not tied:
        head = reader.weight("output.weight", config.vocabulary, config.hidden, apart=True)
        head = head if shards is None else shards.vocabulary(head)
    parameters = Parameters(
        embedding=embedding,
        layers=tuple(read(index) for index in range(config.layers)),
        output_norm=output_norm if shards is None else shards.whole(output_norm),
        head=head,
        frequencies=rotary,
    )
    _pass_over_predicting_blocks(reader, config)
    reader.check_all_read()
    return parameters._replace(memory=reader.memory())


def layer_on_dies(layer: LayerParameters, shards: Shards | None) -> LayerParameters:
    """A layer on its dies, before the next one is read; None for the default device."""
    if shards is None:
        return layer
    return LayerParameters(
        mixer_norm=shards.whole(layer.mixer_norm),
        mixer=shards.mixer(layer.mixer),
        feed_forward_norm=shards.whole(layer.feed_forward_norm),
        feed_forward=shards.feed_forward(layer.feed_forward),
    )


def _pass_over_predicting_blocks(reader: WeightReader, config: ModelConfig) -> None:
    """A block without `nextn` tensors is a layer, whatever the metadata say of it."""
    blocks = f"{config.architecture}.block_count"
    for index in range(config.layers, reader.file.metadata.uint(blocks)):
        own = [name for name in reader.file.tensors if name.startswith(f"blk.{index}.")]
        if any(name.startswith(f"blk.{index}.nextn.") for name in own):
            for name in own:
                reader.pass_over(name)


def _frequencies(reader: WeightReader, config: ModelConfig) -> Float[Array, " pairs"]:
    """Rotary frequencies, divided by the file's factors where it has them.

    Llama 3 has one set; LongRoPE has one for contexts up to the original length and one for
    longer ones, of which the served context takes one for good: keys that were rotated by one
    cannot be compared with queries rotated by the other.
    """
    plain = jnp.asarray(frequencies(config.rope))
    pairs = config.rope.dim // 2
    if config.rope.original_length is not None:
        long = reader.vector(LONG_FACTORS, pairs)
        short = reader.vector(SHORT_FACTORS, pairs)
        return plain / (long if config.context_length > config.rope.original_length else short)
    if _FACTORS in reader:
        return plain / reader.vector(_FACTORS, pairs)
    return plain
