"""A file that says more than this build understands is refused, never answered wrongly."""

from pathlib import Path

import gguf
import numpy as np
import pytest

from pantheon.engine.gguf import GGUFError
from tests.engine.model.forward import open_model

_HIDDEN = 8


def _write(path: Path, *, extra_tensor: str | None = None, scaling: str | None = None) -> Path:
    """A llama of one layer, written by the gguf package."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(_HIDDEN)
    writer.add_feed_forward_length(_HIDDEN)
    writer.add_head_count(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_token_list(["a", "b"])
    if scaling is not None:
        writer.add_rope_scaling_type(gguf.RopeScalingType(scaling))
    square = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    for name in square:
        writer.add_tensor(f"blk.0.{name}.weight", np.ones((_HIDDEN, _HIDDEN), np.float32))
    for name in ("blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(_HIDDEN, np.float32))
    writer.add_tensor("token_embd.weight", np.ones((2, _HIDDEN), np.float32))
    if extra_tensor is not None:
        writer.add_tensor(extra_tensor, np.ones(_HIDDEN, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_the_plain_file_opens(tmp_path: Path) -> None:
    _, config, _ = open_model(_write(tmp_path / "plain.gguf"))
    assert (config.layers, config.hidden, config.kv_heads) == (1, _HIDDEN, 1)


def test_a_tensor_that_is_not_known_is_named(tmp_path: Path) -> None:
    path = _write(tmp_path / "bias.gguf", extra_tensor="blk.0.attn_q.bias")
    with pytest.raises(GGUFError, match=r"blk\.0\.attn_q\.bias"):
        open_model(path)


def test_no_scaling_spelled_out_is_fine(tmp_path: Path) -> None:
    open_model(_write(tmp_path / "none.gguf", scaling="none"))
