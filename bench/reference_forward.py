"""The forward pass of dense models in numpy and float32: what every mode is measured against.

Independent of the engine: weights are dequantised by the package gguf, and everything is the
textbook form of the architectures, without cache, padding or kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import gguf
import numpy as np
from jaxtyping import Float, Int

from bench.errors import BenchError

_Array = np.ndarray
_REFUSED: Final = ("rope.scaling.type", "expert_count", "attention.sliding_window")
"""Keys of what is not computed here."""


@dataclass(frozen=True, slots=True)
class _Dimensions:
    heads: int
    kv_heads: int
    head_dim: int
    rope_base: float
    epsilon: float
    interleaved: bool
    """Whether rotary pairs are neighbours (llama's files) or half a head apart (qwen3's)."""


class ReferenceModel:
    """A llama or qwen3 model whose logits are computed anew from all tokens."""

    def __init__(self, model: Path) -> None:
        """Read and dequantise all weights.

        Raises:
            BenchError: the file is of another architecture, or has what is not computed here.
        """
        reader = gguf.GGUFReader(model)
        fields = {key: field for key, field in reader.fields.items()}
        name = str(fields["general.architecture"].contents())
        if name not in ("llama", "qwen3"):
            raise BenchError(f"{model.name}: expected a llama or qwen3 model, got {name}")
        for key in _REFUSED:
            if f"{name}.{key}" in fields:
                raise BenchError(f"{model.name}: the reference forward pass knows no {key}")

        def number(key: str, otherwise: float | None = None) -> float:
            field = fields.get(f"{name}.{key}")
            if field is None and otherwise is None:
                raise BenchError(f"{model.name}: expected {name}.{key} in the metadata")
            return float(otherwise if field is None else field.contents())  # type: ignore[arg-type]

        heads = int(number("attention.head_count"))
        hidden = int(number("embedding_length"))
        self._layers = int(number("block_count"))
        self._dimensions = _Dimensions(
            heads=heads,
            kv_heads=int(number("attention.head_count_kv", heads)),
            head_dim=int(number("attention.key_length", hidden // heads)),
            rope_base=number("rope.freq_base", 10000.0),
            epsilon=number("attention.layer_norm_rms_epsilon"),
            interleaved=name == "llama",
        )
        self._weights: dict[str, _Array] = {
            tensor.name: gguf.dequantize(tensor.data, tensor.tensor_type).astype(
                np.float32, copy=False
            )
            for tensor in reader.tensors
        }
        if "rope_freqs.weight" in self._weights:
            raise BenchError(f"{model.name}: the reference forward pass knows no RoPE factors")

    @property
    def vocabulary(self) -> int:
        """Scores of a position."""
        return int(self._weights["token_embd.weight"].shape[0])

    def hidden_states(self, tokens: Int[_Array, " time"]) -> Float[_Array, "time hidden"]:
        """Hidden states after the final norm, float32."""
        x = self._weights["token_embd.weight"][tokens]
        for layer in range(self._layers):
            x = x + self._attention(layer, self._normed(f"blk.{layer}.attn_norm", x))
            x = x + self._feed_forward(layer, self._normed(f"blk.{layer}.ffn_norm", x))
        return self._normed("output_norm", x)

    def logits(self, hidden: Float[_Array, "count hidden"]) -> Float[_Array, "count vocabulary"]:
        """Scores over the vocabulary, float32."""
        head = self._weights.get("output.weight")
        result: _Array = hidden @ (self._weights["token_embd.weight"] if head is None else head).T
        return result

    def _linear(self, name: str, x: _Array) -> _Array:
        result: _Array = x @ self._weights[f"{name}.weight"].T
        bias = self._weights.get(f"{name}.bias")
        return result if bias is None else result + bias

    def _normed(self, name: str, x: _Array) -> _Array:
        scale = 1 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + self._dimensions.epsilon)
        result: _Array = x * scale * self._weights[f"{name}.weight"]
        return result.astype(np.float32, copy=False)

    def _attention(self, layer: int, x: _Array) -> _Array:
        d = self._dimensions
        block = f"blk.{layer}."
        time = x.shape[0]
        q = self._linear(f"{block}attn_q", x).reshape(time, d.heads, d.head_dim)
        k = self._linear(f"{block}attn_k", x).reshape(time, d.kv_heads, d.head_dim)
        v = self._linear(f"{block}attn_v", x).reshape(time, d.kv_heads, d.head_dim)
        if f"{block}attn_q_norm.weight" in self._weights:
            q = self._normed(f"{block}attn_q_norm", q)
            k = self._normed(f"{block}attn_k_norm", k)
        q, k = self._rotated(q), self._rotated(k)
        group = d.heads // d.kv_heads
        k, v = (np.repeat(one, group, axis=1).transpose(1, 0, 2) for one in (k, v))
        scores = q.transpose(1, 0, 2) @ k.transpose(0, 2, 1) / np.float32(np.sqrt(d.head_dim))
        scores[:, np.triu(np.ones((time, time), bool), 1)] = -np.inf
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        mixed = (weights @ v).transpose(1, 0, 2).reshape(time, -1)
        return self._linear(f"{block}attn_output", mixed)

    def _rotated(self, x: _Array) -> _Array:
        """Rotary embedding of (time, heads, head_dim), position by row."""
        d = self._dimensions
        half = d.head_dim // 2
        frequencies = d.rope_base ** (-np.arange(half) / half)
        angles = np.arange(x.shape[0])[:, None, None] * frequencies
        cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        first: Any = np.s_[..., 0::2] if d.interleaved else np.s_[..., :half]
        second: Any = np.s_[..., 1::2] if d.interleaved else np.s_[..., half:]
        result = np.empty_like(x)
        result[first] = x[first] * cos - x[second] * sin
        result[second] = x[second] * cos + x[first] * sin
        return result

    def _feed_forward(self, layer: int, x: _Array) -> _Array:
        block = f"blk.{layer}."
        gate = self._linear(f"{block}ffn_gate", x)
        # The exponential of a very negative gate overflows to infinity, and the quotient is zero.
        with np.errstate(over="ignore"):
            active = gate / (1 + np.exp(-gate))
        return self._linear(f"{block}ffn_down", active * self._linear(f"{block}ffn_up", x))
