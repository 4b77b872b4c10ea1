"""The shape of a model, read from GGUF metadata."""

from __future__ import annotations

from dataclasses import dataclass

from pantheon.engine.gguf import GGUFError, GGUFFile

_LARGEST_LAYERS = 1024
_LARGEST_WIDTH = 1 << 20
_LARGEST_CONTEXT = 1 << 24


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Dimensions of a decoder. Hashable: a jitted step takes it as a static argument.

    Attributes:
        vocabulary: rows of the embedding, padding rows included.
        tokens: entries of the tokenizer's list; logits of rows past it are never sampled.
        context_length: the longest context the model was made for, in tokens.
        rotary_dim: leading dimensions of each head that are rotated.
    """

    architecture: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    vocabulary: int
    tokens: int
    context_length: int
    rms_epsilon: float
    rope_base: float
    rotary_dim: int

    @property
    def kv_values_per_token(self) -> int:
        """Numbers that one token's keys and values take in all layers together."""
        return 2 * self.layers * self.kv_heads * self.head_dim


def read_config(file: GGUFFile) -> ModelConfig:
    """Read the dimensions of a llama-like decoder (GGUF specification, `[llm].*` keys).

    Raises:
        GGUFError: a key is missing, of the wrong type or out of range, or two disagree.
    """
    metadata = file.metadata
    architecture = metadata.string("general.architecture")

    def size(key: str, largest: int, default: int | None = None) -> int:
        name = f"{architecture}.{key}"
        if default is not None and name not in metadata:
            return default
        return metadata.uint(name, minimum=1, maximum=largest)

    hidden = size("embedding_length", _LARGEST_WIDTH)
    heads = size("attention.head_count", _LARGEST_WIDTH)
    kv_heads = size("attention.head_count_kv", _LARGEST_WIDTH, default=heads)
    if heads % kv_heads:
        raise GGUFError(
            f"{architecture}.attention.head_count must be a multiple of head_count_kv, "
            f"got {heads} and {kv_heads}"
        )
    if hidden % heads and f"{architecture}.attention.key_length" not in metadata:
        raise GGUFError(
            f"{architecture}.embedding_length must be a multiple of attention.head_count where "
            f"attention.key_length is absent, got {hidden} and {heads}"
        )
    head_dim = size("attention.key_length", _LARGEST_WIDTH, default=max(hidden // heads, 1))
    value_dim = size("attention.value_length", _LARGEST_WIDTH, default=head_dim)
    if value_dim != head_dim:
        raise GGUFError(
            f"{architecture}.attention.value_length must equal key_length, "
            f"got {value_dim} and {head_dim}"
        )
    rotary_dim = size("rope.dimension_count", _LARGEST_WIDTH, default=head_dim)
    if rotary_dim % 2 or rotary_dim > head_dim:
        raise GGUFError(
            f"{architecture}.rope.dimension_count must be even and at most the head size "
            f"{head_dim}, got {rotary_dim}"
        )
    scaling = metadata.optional_string(f"{architecture}.rope.scaling.type")
    if scaling not in (None, "none"):
        raise GGUFError(f"{architecture}.rope.scaling.type must be none, got {scaling!r}")
    epsilon = metadata.float(f"{architecture}.attention.layer_norm_rms_epsilon")
    rope_base = metadata.optional_float(f"{architecture}.rope.freq_base")
    rope_base = 10_000.0 if rope_base is None else rope_base
    if not 0 < epsilon < 1 or not rope_base >= 1:
        raise GGUFError(
            "layer_norm_rms_epsilon must lie in (0, 1) and rope.freq_base be at least 1, "
            f"got {epsilon} and {rope_base}"
        )
    vocabulary = file.tensor("token_embd.weight").shape[0]
    tokens = len(metadata.strings("tokenizer.ggml.tokens"))
    if tokens > vocabulary:
        raise GGUFError(
            f"tokenizer.ggml.tokens must not be longer than the {vocabulary} rows of "
            f"token_embd.weight, got {tokens}"
        )
    return ModelConfig(
        architecture=architecture,
        layers=size("block_count", _LARGEST_LAYERS),
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        inner=size("feed_forward_length", _LARGEST_WIDTH),
        vocabulary=vocabulary,
        tokens=tokens,
        context_length=size("context_length", _LARGEST_CONTEXT),
        rms_epsilon=epsilon,
        rope_base=rope_base,
        rotary_dim=rotary_dim,
    )
