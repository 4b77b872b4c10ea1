"""qwen3: norms over the heads of queries and keys."""

from __future__ import annotations

from pantheon.engine.gguf import GGUFFile
from pantheon.engine.model.config import ModelConfig, Pairing
from pantheon.engine.model.parameters import LayerParameters
from pantheon.engine.model.read import WeightReader
from pantheon.engine.model.read_config import read_decoder_config
from pantheon.engine.model.read_layers import read_mlp, read_normed_attention


def read_config(file: GGUFFile) -> ModelConfig:
    """See `read_decoder_config`."""
    return read_decoder_config(file, Pairing.HALVES)


def read_layer(reader: WeightReader, config: ModelConfig, index: int) -> LayerParameters:
    """Attention with norms over its heads and a dense feed-forward layer."""
    return LayerParameters(
        mixer_norm=reader.vector(f"blk.{index}.attn_norm.weight", config.hidden),
        mixer=read_normed_attention(reader, config, index),
        feed_forward_norm=reader.vector(f"blk.{index}.ffn_norm.weight", config.hidden),
        feed_forward=read_mlp(reader, config.hidden, config.inner, index),
    )
