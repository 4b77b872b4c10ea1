"""phi3: Phi 3, 3.5 and 4 mini: fused matrices, LongRoPE, a sliding window."""

from __future__ import annotations

from pantheon.engine.gguf import GGUFFile
from pantheon.engine.model.config import ModelConfig, Pairing
from pantheon.engine.model.parameters import LayerParameters
from pantheon.engine.model.read import WeightReader
from pantheon.engine.model.read_config import read_decoder_config
from pantheon.engine.model.read_layers import read_fused_attention, read_fused_mlp


def read_config(file: GGUFFile) -> ModelConfig:
    """See `read_decoder_config`."""
    return read_decoder_config(file, Pairing.HALVES, sliding_window=True)


def read_layer(reader: WeightReader, config: ModelConfig, index: int) -> LayerParameters:
    """Attention and a dense feed-forward layer, both with fused matrices."""
    return LayerParameters(
        mixer_norm=reader.vector(f"blk.{index}.attn_norm.weight", config.hidden),
        mixer=read_fused_attention(reader, config, index),
        feed_forward_norm=reader.vector(f"blk.{index}.ffn_norm.weight", config.hidden),
        feed_forward=read_fused_mlp(reader, config, index),
    )
