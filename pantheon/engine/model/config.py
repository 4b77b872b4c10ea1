"""The shape of a model. Plain values, hashable: a jitted step takes them as static arguments."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

import numpy as np

from pantheon.engine.kernels.implementation import Implementation

FLOAT32: Final[np.dtype[Any]] = np.dtype(np.float32)


class Pairing(Enum):
    """Which dimensions of a head are rotated together."""

    NEIGHBOURS = "dimensions 2i and 2i+1"
    HALVES = "dimension i of both halves of the rotated part"


@dataclass(frozen=True, slots=True)
class LinearScaling:
    """Positions divided by a factor (Chen et al., 2023)."""

    factor: float


@dataclass(frozen=True, slots=True)
class YarnScaling:
    """Slow frequencies interpolated, fast ones kept (YaRN: Peng et al., 2023).

    Attributes:
        factor: by how much the context was extended.
        original_length: tokens of the context before that.
        beta_fast, beta_slow: turns within the original context at and above which a frequency
            is kept, and at and below which it is interpolated.
    """

    factor: float
    original_length: int
    beta_fast: float
    beta_slow: float


@dataclass(frozen=True, slots=True)
class RopeConfig:
    """Rotary position embedding.

    Attributes:
        dim: leading dimensions of each head that are rotated.
        scaling: how the frequencies were changed to extend the context. Factors for each
            frequency (Llama 3, LongRoPE) are tensors of the file, not configuration.
        original_length: tokens of the context before LongRoPE extended it; None without it.
        magnitude: what the rotated dimensions are multiplied by.
    """

    dim: int
    base: float
    pairing: Pairing
    scaling: LinearScaling | YarnScaling | None = None
    original_length: int | None = None
    magnitude: float = 1.0


@dataclass(frozen=True, slots=True)
class MoeConfig:
    """A mixture of experts.

    Attributes:
        used: experts that each token is given to.
        inner: rows of an expert's gate.
        shared_inner: rows of the gate of the expert that sees every token; 0 for none.
    """

    experts: int
    used: int
    inner: int
    shared_inner: int = 0


@dataclass(frozen=True, slots=True)
class DeltaNetConfig:
    """A gated delta net.

    Attributes:
        key_dim, value_dim: dimensions of one head.
        kernel: taps of the causal convolution.
        tiled: True when value head j reads key head `j mod key_heads`, False when it reads
            `j div (value_heads / key_heads)`.
    """

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    kernel: int
    tiled: bool

    @property
    def channels(self) -> int:
        """Channels of the convolution: queries, keys and values one after another."""
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim

    @property
    def state_shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """What one sequence leaves in a layer: the convolution's last inputs, and the state."""
        state = (self.value_heads, self.key_dim, self.value_dim)
        return (self.kernel - 1, self.channels), state


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Dimensions of a decoder.

    Attributes:
        inner: rows of the gate of a dense feed-forward layer; 0 where there is none.
        vocabulary: rows of the embedding, padding rows included.
        tokens: entries of the tokenizer's list; logits of rows past it are never sampled.
        context_length: the longest context that is served, in tokens.
        recurrent: for each layer whether it is recurrent instead of attending.
        gated_attention: whether attention has a gate on its output.
        sliding_window: how many tokens back a token sees, itself included; 0 for all.
        moe: the feed-forward layers are mixtures of experts; None for dense ones.
        delta_net: the recurrent layers; None where there are none.
        implementation: what computes the operations. Which layout a weight is in says of itself who
            multiplies by it.
        kv_dtype: in which keys and values are kept, float32 or float16.
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
    rope: RopeConfig
    recurrent: tuple[bool, ...]
    gated_attention: bool = False
    sliding_window: int = 0
    moe: MoeConfig | None = None
    delta_net: DeltaNetConfig | None = None
    implementation: Implementation = Implementation.XLA
    kv_dtype: np.dtype[Any] = FLOAT32

    @property
    def native(self) -> bool:
        """Whether the native kernels compute; they must be there."""
        return self.implementation is Implementation.NATIVE

    @property
    def attention_layers(self) -> int:
        """Layers that keep keys and values."""
        return self.layers - sum(self.recurrent)

    @property
    def kv_values_per_token(self) -> int:
        """Numbers that one token's keys and values take in all layers together."""
        return 2 * self.attention_layers * self.kv_heads * self.head_dim

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of the same."""
        return self.kv_values_per_token * self.kv_dtype.itemsize

    @property
    def state_values(self) -> int:
        """Numbers that one sequence leaves in all recurrent layers together."""
        if self.delta_net is None:
            return 0
        return sum(self.recurrent) * sum(map(math.prod, self.delta_net.state_shapes))

    @property
    def widest_inner(self) -> int:
        """Most numbers that one token has between the matrices of a feed-forward layer."""
        if self.moe is None:
            return self.inner
        return max(self.moe.used * self.moe.inner, self.moe.shared_inner)

    def within(self, context_cap: int) -> ModelConfig:
        """The same model served with at most `context_cap` tokens, 0 for no cap.

        It matters to more than memory: LongRoPE has other factors for short contexts.
        """
        if not context_cap:
            return self
        return replace(self, context_length=min(self.context_length, context_cap))
