"""Conversion to float32 against the values in tests/data/blocks, which are ggml's own."""

import tracemalloc

import numpy as np
import pytest

from pantheon.engine.gguf import (
    GGUFError,
    GGUFFile,
    Tensor,
    TensorType,
    block_layout,
    dequantize,
    unpack_blocks,
)
from tests.golden import DATA, golden_arrays, golden_file

TYPES = sorted(path.stem for path in (DATA / "blocks").glob("*.npz"))


@pytest.mark.parametrize("name", TYPES)
def test_blocks_are_bit_exact(name: str) -> None:
    """tests/data/blocks/TYPE.npz; NaNs are compared by kind."""
    golden = golden_arrays(f"blocks/{name}.npz")
    values = unpack_blocks(golden["packed"].reshape(-1), TensorType[name])
    expected = golden["dequantized"].reshape(-1)
    assert values.dtype == np.float32
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(values), ~number)
    np.testing.assert_array_equal(values[number].view("u4"), expected[number].view("u4"))


def test_all_block_types_have_golden_values() -> None:
    assert len(TYPES) == 25


@pytest.mark.parametrize("name", ["Q4_1", "Q6_K", "F16"])
def test_chunks_join_exactly(name: str) -> None:
    """Far more values than one chunk: the golden blocks repeated, a partial chunk at the end."""
    golden = golden_arrays(f"blocks/{name}.npz")
    block_bytes = block_layout(TensorType[name])[1]
    packed = golden["packed"].reshape(-1)[: 37 * block_bytes]
    repeats = 1 + 600_000 // (37 * block_layout(TensorType[name])[0])
    values = unpack_blocks(np.tile(packed, repeats), TensorType[name])
    once = unpack_blocks(packed, TensorType[name])
    np.testing.assert_array_equal(
        values.reshape(repeats, -1).view("u4"), [once.view("u4")] * repeats
    )


def test_tensor_has_its_shape_and_its_own_memory() -> None:
    """tests/data/models/llama-smollm-f32.gguf: F32 values are copied out of the map as well."""
    with GGUFFile(golden_file("models/llama-smollm-f32.gguf")) as file:
        tensor = file.tensor("blk.0.attn_k.weight", (64, 256))
        values = dequantize(tensor)
    np.testing.assert_array_equal(values, tensor.packed.view("<f4"))
    assert values.shape == (64, 256)
    assert values.flags.writeable
    assert not np.shares_memory(values, tensor.packed)


@pytest.mark.parametrize("kind", [TensorType.Q8_1, TensorType.I32, TensorType.F64])
def test_types_without_a_conversion_are_refused(kind: TensorType) -> None:
    packed = np.zeros(block_layout(kind)[1], dtype=np.uint8)
    with pytest.raises(GGUFError, match=f"no conversion to float32 for ggml type {kind.name}"):
        dequantize(Tensor("t", kind, (block_layout(kind)[0],), packed))


def test_partial_blocks_are_refused() -> None:
    with pytest.raises(GGUFError, match="whole blocks of 18 bytes, found 19 bytes"):
        unpack_blocks(np.zeros(19, dtype=np.uint8), TensorType.Q4_0)


def test_temporary_memory_is_bounded() -> None:
    """16 Mi values, 64 MiB of result: the temporaries must not grow with the tensor."""
    packed = np.zeros((1 << 24) // 32 * 20, dtype=np.uint8)
    tracemalloc.start()
    try:
        values = unpack_blocks(packed, TensorType.Q4_1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak - values.nbytes < 16 << 20
