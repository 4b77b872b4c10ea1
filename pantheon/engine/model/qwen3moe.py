"""qwen3moe: qwen3 with a mixture of experts in every layer."""

from __future__ import annotations

from pantheon.engine.gguf import GGUFFile
from pantheon.engine.model.config import ModelConfig, Pairing
from pantheon.engine.model.parameters import LayerParameters
from pantheon.engine.model.read import WeightReader
from pantheon.engine.model.read_config import read_decoder_config
from pantheon.engine.model.read_layers import read_moe, read_normed_attention


def read_config(file: GGUFFile) -> ModelConfig:
    """See `read_decoder_config`."""
    return read_decoder_config(file, Pairing.HALVES, moe=True)


def read_layer(reader: WeightReader, config: ModelConfig, index: int) -> LayerParameters:
    """Attention with norms over its heads and a mixture of experts."""
    return LayerParameters(
        mixer_norm=reader.vector(f"blk.{index}.attn_norm.weight", config.hidden),
        mixer=read_normed_attention(reader, config, index),
        feed_forward_norm=reader.vector(f"blk.{index}.ffn_norm.weight", config.hidden),
        feed_forward=read_moe(reader, config, index),
    )
