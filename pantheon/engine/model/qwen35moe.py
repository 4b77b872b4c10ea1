"""qwen35moe: qwen35 with a mixture of experts in every layer."""

from __future__ import annotations

from pantheon.engine.gguf import GGUFFile
from pantheon.engine.model.config import ModelConfig, Pairing
from pantheon.engine.model.parameters import LayerParameters
from pantheon.engine.model.read import WeightReader
from pantheon.engine.model.read_config import read_decoder_config
from pantheon.engine.model.read_layers import read_delta_net, read_moe, read_normed_attention


def read_config(file: GGUFFile) -> ModelConfig:
    """See `read_decoder_config`."""
    return read_decoder_config(
        file,
        Pairing.HALVES,
        moe=True,
        shared_expert=True,
        tiled_delta_net=True,
        gated_attention=True,
    )


def read_layer(reader: WeightReader, config: ModelConfig, index: int) -> LayerParameters:
    """A gated delta net or attention, and a mixture of experts with a shared one."""
    return LayerParameters(
        mixer_norm=reader.vector(f"blk.{index}.attn_norm.weight", config.hidden),
        mixer=(
            read_delta_net(reader, config, index)
            if config.recurrent[index]
            else read_normed_attention(reader, config, index)
        ),
        feed_forward_norm=reader.vector(f"blk.{index}.post_attention_norm.weight", config.hidden),
        feed_forward=read_moe(reader, config, index),
    )
