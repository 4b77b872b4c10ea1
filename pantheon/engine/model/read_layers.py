"""The layers of each kind from the tensors that GGUF files name alike in every architecture."""

from __future__ import annotations

from jaxtyping import Array, Float

from pantheon.engine.model.attention import AttentionParameters
from pantheon.engine.model.config import DeltaNetConfig, ModelConfig, MoeConfig
from pantheon.engine.model.gated_delta_net import DeltaNetParameters
from pantheon.engine.model.mlp import MlpParameters
from pantheon.engine.model.moe import MoeParameters
from pantheon.engine.model.packed import Weight, split_rows
from pantheon.engine.model.read import WeightReader


def read_attention(
    reader: WeightReader, config: ModelConfig, index: int, *, biased: bool = False
) -> AttentionParameters:
    """Attention with projections of its own for queries, keys and values."""
    prefix, hidden = f"blk.{index}", config.hidden
    outputs, kv_rows = config.heads * config.head_dim, config.kv_heads * config.head_dim
    query_rows = 2 * outputs if config.gated_attention else outputs

    def bias(name: str, rows: int) -> Float[Array, " rows"] | None:
        return reader.vector(f"{prefix}.{name}.bias", rows) if biased else None

    return AttentionParameters(
        query=reader.weight(f"{prefix}.attn_q.weight", query_rows, hidden),
        key=reader.weight(f"{prefix}.attn_k.weight", kv_rows, hidden),
        value=reader.weight(f"{prefix}.attn_v.weight", kv_rows, hidden),
        output=reader.weight(f"{prefix}.attn_output.weight", hidden, outputs),
        query_bias=bias("attn_q", query_rows),
        key_bias=bias("attn_k", kv_rows),
        value_bias=bias("attn_v", kv_rows),
    )


def read_normed_attention(
    reader: WeightReader, config: ModelConfig, index: int
) -> AttentionParameters:
    """Attention with norms over the heads of queries and keys."""
    return read_attention(reader, config, index)._replace(
        query_norm=reader.vector(f"blk.{index}.attn_q_norm.weight", config.head_dim),
        key_norm=reader.vector(f"blk.{index}.attn_k_norm.weight", config.head_dim),
    )


def read_fused_attention(
    reader: WeightReader, config: ModelConfig, index: int
) -> AttentionParameters:
    """Attention whose file holds queries, keys and values in one matrix."""
    prefix, hidden = f"blk.{index}", config.hidden
    query_rows, kv_rows = config.heads * config.head_dim, config.kv_heads * config.head_dim
    sizes = (query_rows, kv_rows, kv_rows)
    query, key, value = reader.parts(f"{prefix}.attn_qkv.weight", sizes, hidden)
    output = reader.weight(f"{prefix}.attn_output.weight", hidden, query_rows)
    return AttentionParameters(query=query, key=key, value=value, output=output)


def read_mlp(
    reader: WeightReader, hidden: int, inner: int, index: int, suffix: str = ""
) -> MlpParameters:
    """A dense feed-forward layer."""
    prefix = f"blk.{index}"
    return MlpParameters(
        gate=reader.weight(f"{prefix}.ffn_gate{suffix}.weight", inner, hidden),
        up=reader.weight(f"{prefix}.ffn_up{suffix}.weight", inner, hidden),
        down=reader.weight(f"{prefix}.ffn_down{suffix}.weight", hidden, inner),
    )


def read_fused_mlp(reader: WeightReader, config: ModelConfig, index: int) -> MlpParameters:
    """A dense feed-forward layer whose file holds gate and up in one matrix."""
    prefix, hidden, inner = f"blk.{index}", config.hidden, config.inner
    gate, up = reader.parts(f"{prefix}.ffn_up.weight", (inner, inner), hidden)
    down = reader.weight(f"{prefix}.ffn_down.weight", hidden, inner)
    return MlpParameters(gate=gate, up=up, down=down)


def read_moe(reader: WeightReader, config: ModelConfig, index: int) -> MoeParameters:
    """A mixture of experts, with a shared one where the configuration has it."""
    moe, hidden, prefix = _moe_of(config), config.hidden, f"blk.{index}"
    fused = f"{prefix}.ffn_gate_up_exps.weight"
    if fused in reader:
        both = reader.stack(fused, moe.experts, 2 * moe.inner, hidden)
        gate, up = split_rows(both, (moe.inner, moe.inner))
    else:
        gate = reader.stack(f"{prefix}.ffn_gate_exps.weight", moe.experts, moe.inner, hidden)
        up = reader.stack(f"{prefix}.ffn_up_exps.weight", moe.experts, moe.inner, hidden)
    experts = MoeParameters(
        router=reader.array(f"{prefix}.ffn_gate_inp.weight", moe.experts, hidden),
        gate=gate,
        up=up,
        down=reader.stack(f"{prefix}.ffn_down_exps.weight", moe.experts, hidden, moe.inner),
    )
    if not moe.shared_inner:
        return experts
    share = f"{prefix}.ffn_gate_inp_shexp.weight"
    # One output: quantised files write it as a vector, others as a matrix of one row.
    one_row = share in reader and len(reader.file.tensors[share].shape) > 1
    return experts._replace(
        shared=read_mlp(reader, hidden, moe.shared_inner, index, "_shexp"),
        shared_gate=reader.array(share, 1, hidden)[0] if one_row else reader.vector(share, hidden),
    )


def read_delta_net(reader: WeightReader, config: ModelConfig, index: int) -> DeltaNetParameters:
    """A gated delta net with matrices of their own for strength and decay."""
    prefix, heads = f"blk.{index}", _delta_net_of(config).value_heads
    return delta_net_of(
        reader,
        config,
        index,
        strength=reader.weight(f"{prefix}.ssm_beta.weight", heads, config.hidden),
        decay=reader.weight(f"{prefix}.ssm_alpha.weight", heads, config.hidden),
    )


def delta_net_of(
    reader: WeightReader, config: ModelConfig, index: int, *, strength: Weight, decay: Weight
) -> DeltaNetParameters:
    """What every gated delta net has beside the matrices of strength and decay."""
    shape, prefix, hidden = _delta_net_of(config), f"blk.{index}", config.hidden
    values = shape.value_heads * shape.value_dim
    return DeltaNetParameters(
        qkv=reader.weight(f"{prefix}.attn_qkv.weight", shape.channels, hidden),
        gate=reader.weight(f"{prefix}.attn_gate.weight", values, hidden),
        strength=strength,
        decay=decay,
        convolution=reader.array(f"{prefix}.ssm_conv1d.weight", shape.channels, shape.kernel),
        decay_bias=reader.vector(f"{prefix}.ssm_dt.bias", shape.value_heads),
        decay_rate=reader.vector(f"{prefix}.ssm_a", shape.value_heads),
        norm=reader.vector(f"{prefix}.ssm_norm.weight", shape.value_dim),
        output=reader.weight(f"{prefix}.ssm_out.weight", hidden, values),
    )


def _moe_of(config: ModelConfig) -> MoeConfig:
    assert config.moe is not None, "a mixture of experts has a shape"
    return config.moe


def _delta_net_of(config: ModelConfig) -> DeltaNetConfig:
    assert config.delta_net is not None, "a recurrent layer has a shape"
    return config.delta_net
