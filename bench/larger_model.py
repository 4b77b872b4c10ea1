"""A model of Qwen3-0.6B's shape with random weights, in the mix of types of Q4_K_M.

What it says has no sense; what it costs is what the real model costs. The tokenizer and the chat
template are those of a file at hand, with tokens added up to the vocabulary's size.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

from bench.errors import BenchError
from bench.random_blocks import q4_k, q6_k
from pantheon.engine.gguf import GGUFFile

NAME: Final = "random-qwen3-0.6b-q4_k_m-1.gguf"
"""With a number that changes with what is generated."""

_SEED: Final = 7
_STD: Final = 0.02
"""Standard deviation of the weights, about that of trained ones."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Dimensions of a qwen3 model, as its `config.json` gives them."""

    layers: int = 28
    hidden: int = 1024
    heads: int = 16
    kv_heads: int = 8
    head_dim: int = 128
    feed_forward: int = 3072
    vocabulary: int = 151936
    context: int = 40960
    rope_base: float = 1e6
    epsilon: float = 1e-6


QWEN3_0_6B: Final = Shape()


def larger_model(root: Path, tokenizer: Path) -> Path:
    """The model's file under `root`/.bench/models, generated if it is not there.

    Args:
        tokenizer: a GGUF file whose tokenizer and chat template it takes over.

    Raises:
        BenchError: that file has no such tokenizer.
    """
    folder = root / ".bench" / "models"
    target = folder / NAME
    if not target.exists():
        print(f"generating {NAME}, once", flush=True)
        folder.mkdir(parents=True, exist_ok=True)
        # Under another name until it is whole: a run that is broken off leaves no half model.
        unfinished = folder / f"{NAME}.{os.getpid()}"
        try:
            write_model(unfinished, tokenizer, QWEN3_0_6B)
            unfinished.rename(target)
        finally:
            unfinished.unlink(missing_ok=True)
    return target


def write_model(target: Path, tokenizer: Path, shape: Shape) -> None:
    """Write a model of a shape; one tensor at a time is held in memory.

    Raises:
        BenchError: the file of the tokenizer does not have one of gpt2's kind, or a larger one.
    """
    writer = gguf.GGUFWriter(target, "qwen3")
    try:
        _write_head(writer, shape)
        _write_tokenizer(writer, tokenizer, shape.vocabulary)
        tensors = tuple(_tensors(shape))
        for name, rows, columns, type in tensors:
            _announce(writer, name, rows, columns, type)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        random = np.random.default_rng(_SEED)
        for _, rows, columns, type in tensors:
            writer.write_tensor_data(_weights(random, rows, columns, type))
    finally:
        writer.close()


def takes_six_bits(layer: int, layers: int) -> bool:
    """Whether Q4_K_M keeps `ffn_down` and `attn_v` of a layer in Q6_K.

    Those of the first and the last eighth, and of every third layer between (`use_more_bits` of
    llama.cpp's `llama-quant.cpp`).
    """
    eighth = layers // 8
    return layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2


def _tensors(shape: Shape) -> Iterator[tuple[str, int, int, Type]]:
    """Name, rows, columns and type of each tensor; a vector has no rows."""
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    # Tied to the head, which Q4_K_M keeps in Q6_K.
    yield "token_embd.weight", shape.vocabulary, shape.hidden, Type.Q6_K
    for layer in range(shape.layers):
        block = f"blk.{layer}."
        better = Type.Q6_K if takes_six_bits(layer, shape.layers) else Type.Q4_K
        yield f"{block}attn_norm.weight", 0, shape.hidden, Type.F32
        yield f"{block}attn_q.weight", queries, shape.hidden, Type.Q4_K
        yield f"{block}attn_k.weight", keys, shape.hidden, Type.Q4_K
        yield f"{block}attn_v.weight", keys, shape.hidden, better
        yield f"{block}attn_q_norm.weight", 0, shape.head_dim, Type.F32
        yield f"{block}attn_k_norm.weight", 0, shape.head_dim, Type.F32
        yield f"{block}attn_output.weight", shape.hidden, queries, Type.Q4_K
        yield f"{block}ffn_norm.weight", 0, shape.hidden, Type.F32
        yield f"{block}ffn_gate.weight", shape.feed_forward, shape.hidden, Type.Q4_K
        yield f"{block}ffn_up.weight", shape.feed_forward, shape.hidden, Type.Q4_K
        yield f"{block}ffn_down.weight", shape.hidden, shape.feed_forward, better
    yield "output_norm.weight", 0, shape.hidden, Type.F32


def _announce(writer: gguf.GGUFWriter, name: str, rows: int, columns: int, type: Type) -> None:
    if not rows:
        writer.add_tensor_info(name, (columns,), np.dtype(np.float32), 4 * columns)
        return
    values, size = gguf.GGML_QUANT_SIZES[type]
    row_bytes = columns // values * size
    # The writer takes the shape in bytes of what is packed.
    writer.add_tensor_info(
        name, (rows, row_bytes), np.dtype(np.uint8), rows * row_bytes, raw_dtype=type
    )


def _weights(random: np.random.Generator, rows: int, columns: int, type: Type) -> Any:
    if not rows:
        return np.ones(columns, np.float32)
    blocks = rows * columns // gguf.GGML_QUANT_SIZES[type][0]
    return {Type.Q4_K: q4_k, Type.Q6_K: q6_k}[type](random, blocks, _STD)


def _write_head(writer: gguf.GGUFWriter, shape: Shape) -> None:
    writer.add_name("random weights of Qwen3-0.6B's shape")
    writer.add_block_count(shape.layers)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.hidden)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_rope_freq_base(shape.rope_base)
    writer.add_layer_norm_rms_eps(shape.epsilon)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_K_M)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)


def _write_tokenizer(writer: gguf.GGUFWriter, source: Path, vocabulary: int) -> None:
    with GGUFFile(source) as file:
        metadata = file.metadata
        kind = metadata.string("tokenizer.ggml.model")
        tokens = list(metadata.strings("tokenizer.ggml.tokens"))
        if kind != "gpt2" or len(tokens) > vocabulary:
            raise BenchError(
                f"{source.name}: expected a tokenizer of kind gpt2 with at most {vocabulary} "
                f"tokens, got {kind} with {len(tokens)}"
            )
        types = [int(one) for one in metadata.integers("tokenizer.ggml.token_type")]
        merges = list(metadata.strings("tokenizer.ggml.merges"))
        more = range(len(tokens), vocabulary)
        writer.add_tokenizer_model(kind)
        writer.add_tokenizer_pre(metadata.string("tokenizer.ggml.pre"))
        # Ordinary tokens with a text: a random model samples them most of the time.
        writer.add_token_list([*tokens, *(f"[{token}]" for token in more)])
        writer.add_token_types([*types, *(gguf.TokenType.NORMAL for _ in more)])
        writer.add_token_merges(merges)
        for key, add in (
            ("bos", writer.add_bos_token_id),
            ("eos", writer.add_eos_token_id),
            ("padding", writer.add_pad_token_id),
        ):
            token = metadata.optional_uint(f"tokenizer.ggml.{key}_token_id")
            if token is not None:
                add(token)
        writer.add_add_bos_token(False)
        template = metadata.optional_string("tokenizer.chat_template")
        if template is not None:
            writer.add_chat_template(template)
