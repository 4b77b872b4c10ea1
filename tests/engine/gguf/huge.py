"""A whole GGUF file whose weights no machine holds, of which no byte is stored."""

import struct
from pathlib import Path

from tests.engine.gguf import builder

ROWS = 1 << 31
HIDDEN = 64


def huge_model(path: Path) -> Path:
    """Write a llama-like file of 77 GB (550 GB as float32) as a hole; its path."""
    pairs = [
        builder.text("general.architecture", "llama"),
        builder.uint32("llama.block_count", 1),
        builder.uint32("llama.embedding_length", HIDDEN),
        builder.uint32("llama.feed_forward_length", HIDDEN),
        builder.uint32("llama.context_length", 512),
        builder.uint32("llama.attention.head_count", 2),
        builder.pair(
            "llama.attention.layer_norm_rms_epsilon", builder.FLOAT32, struct.pack("<f", 1e-5)
        ),
        builder.strings("tokenizer.ggml.tokens", ["a", "b"]),
    ]
    tensor = builder.tensor("token_embd.weight", [HIDDEN, ROWS], builder.Q4_0, 0)
    path.write_bytes(builder.File(pairs, [tensor]).pack())
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size + ROWS * (HIDDEN // 32) * 18)
    return path
