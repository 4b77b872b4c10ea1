"""qwen3next: Qwen3-Next: qwen35moe with another order of the heads of its delta nets."""

from __future__ import annotations

import numpy as np

from pantheon.engine.gguf import GGUFFile
from pantheon.engine.model.config import ModelConfig, Pairing
from pantheon.engine.model.gated_delta_net import DeltaNetParameters
from pantheon.engine.model.parameters import LayerParameters
from pantheon.engine.model.read import WeightReader
from pantheon.engine.model.read_config import read_decoder_config
from pantheon.engine.model.read_layers import delta_net_of, read_moe, read_normed_attention


def read_config(file: GGUFFile) -> ModelConfig:
    """See `read_decoder_config`. The value heads that read a key head stand together."""
    return read_decoder_config(
        file,
        Pairing.HALVES,
        moe=True,
        shared_expert=True,
        tiled_delta_net=False,
        gated_attention=True,
    )


def read_layer(reader: WeightReader, config: ModelConfig, index: int) -> LayerParameters:
    """A gated delta net or attention, and a mixture of experts with a shared one."""
    return LayerParameters(
        mixer_norm=reader.vector(f"blk.{index}.attn_norm.weight", config.hidden),
        mixer=(
            _read_delta_net(reader, config, index)
            if config.recurrent[index]
            else read_normed_attention(reader, config, index)
        ),
        feed_forward_norm=reader.vector(f"blk.{index}.post_attention_norm.weight", config.hidden),
        feed_forward=read_moe(reader, config, index),
    )


def _read_delta_net(reader: WeightReader, config: ModelConfig, index: int) -> DeltaNetParameters:
    """One matrix has the rows of strength and of decay of each key head's value heads in turn."""
    shape = config.delta_net
    assert shape is not None, "a recurrent layer has a shape"
    times = shape.value_heads // shape.key_heads
    rows = np.arange(2 * shape.value_heads).reshape(shape.key_heads, 2, times)
    strength, decay = reader.rows_at(
        f"blk.{index}.ssm_ba.weight",
        (rows[:, 0].reshape(-1), rows[:, 1].reshape(-1)),
        config.hidden,
    )
    return delta_net_of(reader, config, index, strength=strength, decay=decay)
