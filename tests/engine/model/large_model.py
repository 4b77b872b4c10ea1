"""Writes a file of the shape of Qwen3.5-35B-A3B with few experts and random weights.

Its matrices are random blocks of Q3_K and Q4_K whose scales are such that activations keep their
size; tokenizer and template are those of a tiny model, so most rows of the embedding are padding.

`python -m tests.engine.model.large_model FILE`
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import gguf
import numpy as np
from numpy.typing import NDArray

from tests.engine.model.rewritten import Value, copy_metadata
from tests.golden import golden_file

LAYERS = 40
VOCABULARY = 248320
_INTERVAL = 4
_HIDDEN = 2048
_HEADS, _KV_HEADS, _HEAD_DIM = 16, 2, 256
_KEY_HEADS, _VALUE_HEADS, _STATE = 16, 32, 128
_VALUES = _VALUE_HEADS * _STATE
_CHANNELS = 2 * _KEY_HEADS * _STATE + _VALUES
_TAPS = 4
_EXPERTS, _USED, _INNER = 16, 8, 512

ATTENTION_LAYERS = LAYERS // _INTERVAL
RECURRENT_LAYERS = LAYERS - ATTENTION_LAYERS
KV_VALUES = 2 * _KV_HEADS * _HEAD_DIM
"""Numbers that a token leaves in a layer that attends."""
STATE_VALUES = _VALUE_HEADS * _STATE * _STATE + (_TAPS - 1) * _CHANNELS
"""Numbers that a sequence leaves in a recurrent layer."""
ROTARY_PAIRS = _HEAD_DIM // 8

_F32, _Q3_K, _Q4_K = (
    gguf.GGMLQuantizationType.F32,
    gguf.GGMLQuantizationType.Q3_K,
    gguf.GGMLQuantizationType.Q4_K,
)
_BLOCK = {_Q3_K: 110, _Q4_K: 144}
"""Bytes of 256 values."""
_PIECE_BLOCKS = 1 << 16

_METADATA: dict[str, Value] = {
    "block_count": LAYERS,
    "context_length": 262144,
    "embedding_length": _HIDDEN,
    "attention.head_count": _HEADS,
    "attention.head_count_kv": _KV_HEADS,
    "attention.key_length": _HEAD_DIM,
    "attention.value_length": _HEAD_DIM,
    "attention.recurrent_layers": [(index + 1) % _INTERVAL != 0 for index in range(LAYERS)],
    "full_attention_interval": _INTERVAL,
    "rope.dimension_count": _HEAD_DIM // 4,
    "rope.freq_base": 1e7,
    "expert_count": _EXPERTS,
    "expert_used_count": _USED,
    "expert_feed_forward_length": _INNER,
    "expert_shared_feed_forward_length": _INNER,
    "ssm.conv_kernel": _TAPS,
    "ssm.state_size": _STATE,
    "ssm.group_count": _KEY_HEADS,
    "ssm.time_step_rank": _VALUE_HEADS,
    "ssm.inner_size": _VALUES,
}


@dataclass(frozen=True, slots=True)
class _Tensor:
    """One tensor; its values are around `mean` with a standard deviation of `spread`."""

    name: str
    shape: tuple[int, ...]
    type: gguf.GGMLQuantizationType = _F32
    mean: float = 0.0
    spread: float = 0.1

    @property
    def blocks(self) -> int:
        return int(np.prod(self.shape)) // 256

    @property
    def size(self) -> int:
        if self.type is _F32:
            return int(np.prod(self.shape)) * 4
        return self.blocks * _BLOCK[self.type]


def write_large_model(path: Path) -> int:
    """Write the file, some megabytes at a time; the bytes of its tensors, 2 GB."""
    architecture = "qwen35moe"
    reader = gguf.GGUFReader(golden_file(f"models/{architecture}-f32.gguf"))
    writer = gguf.GGUFWriter(path, architecture)
    changed = {f"{architecture}.{key}": value for key, value in _METADATA.items()}
    copy_metadata(reader, writer, changed)
    tensors = list(_tensors())
    for tensor in tensors:
        writer.add_tensor_info(
            tensor.name, tensor.shape, np.dtype(np.float32), tensor.size, tensor.type
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    random = np.random.default_rng(0)
    with path.open("ab") as file:
        _pad(file)
        for tensor in tensors:
            for piece in _content(tensor, random):
                file.write(piece)
            _pad(file)
    return sum(tensor.size for tensor in tensors)


def _pad(file: BinaryIO) -> None:
    file.write(bytes(-file.tell() % gguf.GGUF_DEFAULT_ALIGNMENT))


def _tensors() -> Iterator[_Tensor]:
    yield _matrix("token_embd", (VOCABULARY, _HIDDEN), _Q4_K, spread=1.0)
    yield _matrix("output", (VOCABULARY, _HIDDEN), _Q4_K)
    yield _norm("output_norm", _HIDDEN)
    for index in range(LAYERS):
        prefix = f"blk.{index}"
        yield _norm(f"{prefix}.attn_norm", _HIDDEN)
        yield from _attention(prefix) if (index + 1) % _INTERVAL == 0 else _delta_net(prefix)
        yield _norm(f"{prefix}.post_attention_norm", _HIDDEN)
        yield from _mixture(prefix)


def _attention(prefix: str) -> Iterator[_Tensor]:
    yield _matrix(f"{prefix}.attn_q", (2 * _HEADS * _HEAD_DIM, _HIDDEN), _Q4_K)
    yield _matrix(f"{prefix}.attn_k", (_KV_HEADS * _HEAD_DIM, _HIDDEN), _Q4_K)
    yield _matrix(f"{prefix}.attn_v", (_KV_HEADS * _HEAD_DIM, _HIDDEN), _Q4_K)
    yield _matrix(f"{prefix}.attn_output", (_HIDDEN, _HEADS * _HEAD_DIM), _Q4_K)
    yield _norm(f"{prefix}.attn_q_norm", _HEAD_DIM)
    yield _norm(f"{prefix}.attn_k_norm", _HEAD_DIM)


def _delta_net(prefix: str) -> Iterator[_Tensor]:
    yield _matrix(f"{prefix}.attn_qkv", (_CHANNELS, _HIDDEN), _Q4_K)
    yield _matrix(f"{prefix}.attn_gate", (_VALUES, _HIDDEN), _Q3_K)
    yield _matrix(f"{prefix}.ssm_out", (_HIDDEN, _VALUES), _Q4_K)
    yield _Tensor(f"{prefix}.ssm_alpha.weight", (_VALUE_HEADS, _HIDDEN), spread=_HIDDEN**-0.5)
    yield _Tensor(f"{prefix}.ssm_beta.weight", (_VALUE_HEADS, _HIDDEN), spread=_HIDDEN**-0.5)
    yield _Tensor(f"{prefix}.ssm_conv1d.weight", (_CHANNELS, _TAPS), spread=0.5)
    yield _Tensor(f"{prefix}.ssm_dt.bias", (_VALUE_HEADS,), mean=-1)
    yield _Tensor(f"{prefix}.ssm_a", (_VALUE_HEADS,), mean=-2)
    yield _norm(f"{prefix}.ssm_norm", _STATE)


def _mixture(prefix: str) -> Iterator[_Tensor]:
    yield _Tensor(f"{prefix}.ffn_gate_inp.weight", (_EXPERTS, _HIDDEN), spread=_HIDDEN**-0.5)
    yield _Tensor(f"{prefix}.ffn_gate_inp_shexp.weight", (_HIDDEN,), spread=_HIDDEN**-0.5)
    for suffix, stack in (("_exps", (_EXPERTS,)), ("_shexp", ())):
        yield _matrix(f"{prefix}.ffn_gate{suffix}", (*stack, _INNER, _HIDDEN), _Q3_K)
        yield _matrix(f"{prefix}.ffn_up{suffix}", (*stack, _INNER, _HIDDEN), _Q3_K)
        yield _matrix(f"{prefix}.ffn_down{suffix}", (*stack, _HIDDEN, _INNER), _Q4_K)


def _norm(name: str, size: int) -> _Tensor:
    return _Tensor(f"{name}.weight", (size,), mean=1)


def _matrix(
    name: str,
    shape: tuple[int, ...],
    type: gguf.GGMLQuantizationType,
    spread: float | None = None,
) -> _Tensor:
    """What leaves it is as large as what enters, unless told otherwise."""
    return _Tensor(f"{name}.weight", shape, type, spread=spread or shape[-1] ** -0.5)


def _content(tensor: _Tensor, random: np.random.Generator) -> Iterator[bytes]:
    if tensor.type is _F32:
        values = random.normal(tensor.mean, tensor.spread, tensor.shape)
        yield values.astype("<f4").tobytes()
        return
    for first in range(0, tensor.blocks, _PIECE_BLOCKS):
        count = min(_PIECE_BLOCKS, tensor.blocks - first)
        blocks = np.frombuffer(random.bytes(count * _BLOCK[tensor.type]), np.uint8)
        yield _scaled(blocks.reshape(count, -1).copy(), tensor).tobytes()


def _scaled(blocks: NDArray[np.uint8], tensor: _Tensor) -> NDArray[np.uint8]:
    """Random blocks with chosen scales in the places of the random ones (ggml-quants.c)."""
    if tensor.type is _Q3_K:
        # d * (a scale in [-32, 32)) * (a value in [-4, 4)), all uniform: 43 d.
        blocks[:, 108:] = _half(tensor.spread / 43)
    else:
        # d * (a scale in [0, 64)) * (a value in [0, 16)) - dmin * (a minimum in [0, 64)).
        blocks[:, :2] = _half(tensor.spread / 258)
        blocks[:, 2:4] = _half(tensor.spread / 258 * 7.5)
    return blocks


def _half(value: float) -> NDArray[np.uint8]:
    return np.array([value], "<f2").view(np.uint8)


if __name__ == "__main__":
    print(write_large_model(Path(sys.argv[1])))
