"""Dimensions of a decoder from GGUF metadata (GGUF specification, `[llm].*` keys)."""

from __future__ import annotations

from pantheon.engine.gguf import GGUFError, GGUFFile
from pantheon.engine.model.config import DeltaNetConfig, ModelConfig, MoeConfig, Pairing
from pantheon.engine.model.read_rope import read_rope

_LARGEST_LAYERS = 1024
_LARGEST_WIDTH = 1 << 20
_LARGEST_CONTEXT = 1 << 24
_LARGEST_KERNEL = 64
_SOFTMAX_GATING = 1


def read_decoder_config(
    file: GGUFFile,
    pairing: Pairing,
    *,
    moe: bool = False,
    shared_expert: bool = False,
    tiled_delta_net: bool | None = None,
    gated_attention: bool = False,
    sliding_window: bool = False,
) -> ModelConfig:
    """Read what an architecture's files say of their shape.

    Args:
        pairing: how the architecture's rotary embedding pairs dimensions.
        moe, shared_expert: its feed-forward layers.
        tiled_delta_net: the order of value heads in its recurrent layers; None where every
            layer attends. See `DeltaNetConfig.tiled`.
        gated_attention: whether its attention has an output gate.
        sliding_window: whether its attention may be limited to a window.

    Raises:
        GGUFError: a key is missing, of the wrong type or out of range, or two disagree.
    """
    keys = _Keys(file)
    metadata = file.metadata
    hidden = keys.size("embedding_length")
    heads = keys.size("attention.head_count")
    kv_heads = keys.size("attention.head_count_kv", default=heads)
    _check_multiple(keys, "attention.head_count", heads, "attention.head_count_kv", kv_heads)
    head_dim = _head_dim(keys, hidden, heads)
    epsilon = metadata.float(keys.name("attention.layer_norm_rms_epsilon"))
    if not 0 < epsilon < 1:
        raise GGUFError(
            f"{keys.name('attention.layer_norm_rms_epsilon')} must lie in (0, 1), got {epsilon}"
        )
    vocabulary = file.tensor("token_embd.weight").shape[0]
    tokens = metadata.count_of_strings("tokenizer.ggml.tokens")
    if tokens > vocabulary:
        raise GGUFError(
            f"tokenizer.ggml.tokens must not be longer than the {vocabulary} rows of "
            f"token_embd.weight, got {tokens}"
        )
    layers = _layers(keys)
    delta_net = None if tiled_delta_net is None else _delta_net(keys, tiled=tiled_delta_net)
    window = keys.size("attention.sliding_window", _LARGEST_CONTEXT, default=0, minimum=0)
    return ModelConfig(
        architecture=file.architecture,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        inner=0 if moe else keys.size("feed_forward_length"),
        vocabulary=vocabulary,
        tokens=tokens,
        context_length=keys.size("context_length", _LARGEST_CONTEXT),
        rms_epsilon=epsilon,
        rope=read_rope(file, head_dim, pairing),
        recurrent=_recurrent(keys, layers) if delta_net else (False,) * layers,
        gated_attention=gated_attention,
        sliding_window=window if sliding_window else 0,
        moe=_moe(keys, shared_expert) if moe else None,
        delta_net=delta_net,
    )


class _Keys:
    """Bounded integers under the prefix of a file's architecture."""

    def __init__(self, file: GGUFFile) -> None:
        self.metadata = file.metadata
        self._architecture = file.architecture

    def name(self, key: str) -> str:
        return f"{self._architecture}.{key}"

    def size(
        self, key: str, largest: int = _LARGEST_WIDTH, default: int | None = None, minimum: int = 1
    ) -> int:
        name = self.name(key)
        if default is not None and name not in self.metadata:
            return default
        return self.metadata.uint(name, minimum=minimum, maximum=largest)


def _check_multiple(keys: _Keys, key: str, value: int, of: str, divisor: int) -> None:
    if value % divisor:
        raise GGUFError(
            f"{keys.name(key)} must be a multiple of {keys.name(of)}, got {value} and {divisor}"
        )


def _head_dim(keys: _Keys, hidden: int, heads: int) -> int:
    if hidden % heads and keys.name("attention.key_length") not in keys.metadata:
        raise GGUFError(
            f"{keys.name('embedding_length')} must be a multiple of attention.head_count where "
            f"attention.key_length is absent, got {hidden} and {heads}"
        )
    head_dim = keys.size("attention.key_length", default=max(hidden // heads, 1))
    value_dim = keys.size("attention.value_length", default=head_dim)
    if value_dim != head_dim:
        raise GGUFError(
            f"{keys.name('attention.value_length')} must equal key_length, "
            f"got {value_dim} and {head_dim}"
        )
    return head_dim


def _layers(keys: _Keys) -> int:
    """Blocks of the model itself. Those that predict further tokens stand after them."""
    blocks = keys.size("block_count", _LARGEST_LAYERS)
    predicting = keys.size("nextn_predict_layers", _LARGEST_LAYERS, default=0, minimum=0)
    if predicting >= blocks:
        raise GGUFError(
            f"{keys.name('nextn_predict_layers')} must be less than block_count, "
            f"got {predicting} and {blocks}"
        )
    return blocks - predicting


def _moe(keys: _Keys, shared_expert: bool) -> MoeConfig:
    experts = keys.size("expert_count")
    used = keys.size("expert_used_count")
    if used > experts:
        raise GGUFError(
            f"{keys.name('expert_used_count')} must be at most expert_count, "
            f"got {used} and {experts}"
        )
    gating = keys.size("expert_gating_func", default=_SOFTMAX_GATING, minimum=0)
    if gating != _SOFTMAX_GATING:
        raise GGUFError(
            f"{keys.name('expert_gating_func')} must be {_SOFTMAX_GATING} (softmax), got {gating}"
        )
    scale = keys.metadata.optional_float(keys.name("expert_weights_scale"))
    if scale not in (None, 0.0, 1.0):
        raise GGUFError(f"{keys.name('expert_weights_scale')} must be 1, got {scale}")
    if keys.metadata.optional_boolean(keys.name("expert_weights_norm")) is False:
        raise GGUFError(f"{keys.name('expert_weights_norm')} must be true, got false")
    return MoeConfig(
        experts=experts,
        used=used,
        inner=keys.size("expert_feed_forward_length"),
        shared_inner=keys.size("expert_shared_feed_forward_length") if shared_expert else 0,
    )


def _delta_net(keys: _Keys, *, tiled: bool) -> DeltaNetConfig:
    key_heads = keys.size("ssm.group_count")
    value_heads = keys.size("ssm.time_step_rank")
    inner = keys.size("ssm.inner_size")
    _check_multiple(keys, "ssm.time_step_rank", value_heads, "ssm.group_count", key_heads)
    _check_multiple(keys, "ssm.inner_size", inner, "ssm.time_step_rank", value_heads)
    kernel = keys.size("ssm.conv_kernel", _LARGEST_KERNEL, minimum=2)
    return DeltaNetConfig(
        key_heads=key_heads,
        value_heads=value_heads,
        key_dim=keys.size("ssm.state_size"),
        value_dim=inner // value_heads,
        kernel=kernel,
        tiled=tiled,
    )


def _recurrent(keys: _Keys, layers: int) -> tuple[bool, ...]:
    """Which layers are recurrent: by the array where a file has it, else by the interval."""
    name = keys.name("attention.recurrent_layers")
    listed = keys.metadata.optional_booleans(name)
    if listed is None:
        interval = keys.size("full_attention_interval", _LARGEST_LAYERS)
        kinds = tuple((index + 1) % interval != 0 for index in range(layers))
    elif len(listed) < layers:
        raise GGUFError(f"{name} must have an entry for each of {layers} layers, got {len(listed)}")
    else:
        kinds = tuple(listed[:layers])
    if all(kinds):
        raise GGUFError(f"at least one of the {layers} layers must attend, all are recurrent")
    return kinds
