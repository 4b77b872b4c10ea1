"""The weights of a llama-like decoder, from GGUF tensors to device arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pantheon.engine.gguf import GGUFError, GGUFFile, dequantize
from pantheon.engine.model.attention import AttentionParameters
from pantheon.engine.model.config import ModelConfig
from pantheon.engine.model.mlp import MlpParameters
from pantheon.engine.model.rotary import inverse_frequencies


class LayerParameters(NamedTuple):
    """Weights of one decoder layer."""

    attention_norm: Float[Array, " hidden"]
    attention: AttentionParameters
    mlp_norm: Float[Array, " hidden"]
    mlp: MlpParameters


class Parameters(NamedTuple):
    """Weights of a decoder.

    Attributes:
        head: the output matrix; the very array of `embedding` where the file ties them.
        frequencies: rotary frequencies, the file's own factors applied.
    """

    embedding: Float[Array, "vocabulary hidden"]
    layers: tuple[LayerParameters, ...]
    output_norm: Float[Array, " hidden"]
    head: Float[Array, "vocabulary hidden"]
    frequencies: Float[Array, " pairs"]


def read_parameters(
    file: GGUFFile, config: ModelConfig, progress: Callable[[int, int], None]
) -> Parameters:
    """Dequantise every tensor to float32 and put it on the default device.

    Args:
        progress: called with (layers read, layers in all) after each layer.

    Raises:
        GGUFError: a tensor is missing, is not known, or has another shape than the metadata
            asks for.
    """

    unread = set(file.tensors)

    def read(name: str, *shape: int) -> jax.Array:
        unread.discard(name)
        return jnp.asarray(dequantize(file.tensor(name, shape)))

    hidden, inner = config.hidden, config.inner
    query_rows, kv_rows = config.heads * config.head_dim, config.kv_heads * config.head_dim

    def read_layer(index: int) -> LayerParameters:
        prefix = f"blk.{index}"
        layer = LayerParameters(
            attention_norm=read(f"{prefix}.attn_norm.weight", hidden),
            attention=AttentionParameters(
                query=read(f"{prefix}.attn_q.weight", query_rows, hidden),
                key=read(f"{prefix}.attn_k.weight", kv_rows, hidden),
                value=read(f"{prefix}.attn_v.weight", kv_rows, hidden),
                output=read(f"{prefix}.attn_output.weight", hidden, query_rows),
            ),
            mlp_norm=read(f"{prefix}.ffn_norm.weight", hidden),
            mlp=MlpParameters(
                gate=read(f"{prefix}.ffn_gate.weight", inner, hidden),
                up=read(f"{prefix}.ffn_up.weight", inner, hidden),
                down=read(f"{prefix}.ffn_down.weight", hidden, inner),
            ),
        )
        progress(index + 1, config.layers)
        return layer

    frequencies = _frequencies(file, config)
    unread.discard("rope_freqs.weight")
    embedding = read("token_embd.weight", config.vocabulary, hidden)
    tied = "output.weight" not in file.tensors
    parameters = Parameters(
        embedding=embedding,
        layers=tuple(read_layer(index) for index in range(config.layers)),
        output_norm=read("output_norm.weight", hidden),
        head=embedding if tied else read("output.weight", config.vocabulary, hidden),
        frequencies=jnp.asarray(frequencies),
    )
    if unread:
        raise GGUFError(
            f"every tensor of a {config.architecture} file must be known, or its answers would "
            f"be wrong; {len(unread)} are not, {min(unread)!r} among them"
        )
    return parameters


def _frequencies(file: GGUFFile, config: ModelConfig) -> Float[np.ndarray, " pairs"]:
    """Rotary frequencies, divided by `rope_freqs.weight` where the file has it (Llama 3)."""
    frequencies = inverse_frequencies(config.rotary_dim, config.rope_base)
    if "rope_freqs.weight" not in file.tensors:
        return frequencies
    factors = dequantize(file.tensor("rope_freqs.weight", (config.rotary_dim // 2,)))
    return frequencies / factors


def held_bytes(tree: object) -> int:
    """Bytes of the distinct arrays of a tree; an array that is used twice counts once."""
    arrays = {id(leaf): leaf.nbytes for leaf in jax.tree.leaves(tree)}
    return sum(arrays.values())
