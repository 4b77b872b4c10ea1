"""Packed weights: products, rows and stacks are those of the unpacked values."""

from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import NDArray

from pantheon.engine.gguf import (
    GGUFError,
    GGUFFile,
    TensorType,
    block_layout,
    dequantize,
    unpack_blocks,
)
from pantheon.engine.model import WeightReader
from pantheon.engine.model.linear import PIECE_BYTES, linear
from pantheon.engine.model.packed import (
    PackedMatrix,
    Weight,
    expert,
    rows_of,
    split_rows,
    values_of,
)
from pantheon.engine.model.read import held_bytes
from tests.engine.gguf import builder
from tests.golden import golden_arrays, golden_file

_COLUMNS = 256


def _packed(rows: int, name: str = "Q4_K") -> tuple[PackedMatrix, NDArray[np.float32]]:
    """A matrix of golden blocks whose values are of ordinary size, and its values."""
    golden = golden_arrays(f"blocks/{name}.npz")
    plain = np.abs(golden["dequantized"]).max(axis=1) < 100
    blocks = golden["packed"][plain]
    blocks = np.resize(
        blocks, (rows * _COLUMNS // block_layout(TensorType[name])[0], blocks.shape[1])
    )
    data = blocks.reshape(rows, -1)
    values = unpack_blocks(data.reshape(-1), TensorType[name]).reshape(rows, _COLUMNS)
    return PackedMatrix(jnp.asarray(data), TensorType[name], _COLUMNS), values


def _plain(dtype: str) -> Callable[[int], tuple[Weight, NDArray[np.float32]]]:
    def make(rows: int) -> tuple[Weight, NDArray[np.float32]]:
        drawn = np.random.default_rng(1).standard_normal((rows, _COLUMNS), np.float32)
        weight = jnp.asarray(drawn).astype(dtype)
        return weight, np.asarray(weight.astype(jnp.float32))

    return make


_WEIGHTS = {
    "Q4_K": _packed,
    "Q8_0": lambda rows: _packed(rows, "Q8_0"),
    "float32": _plain("float32"),
    "float16": _plain("float16"),
    "bfloat16": _plain("bfloat16"),
}


@pytest.mark.parametrize("kind", _WEIGHTS)
@pytest.mark.parametrize("rows", [1, 7, PIECE_BYTES // (4 * _COLUMNS) * 2 + 13])
@pytest.mark.parametrize("batch", [(1,), (2, 3)])
def test_a_product_is_that_of_the_values(kind: str, rows: int, batch: tuple[int, ...]) -> None:
    """Also where the pieces that are unpacked at a time do not come out even."""
    weight, values = _WEIGHTS[kind](rows)
    x = np.random.default_rng(2).standard_normal((*batch, _COLUMNS), np.float32)
    found = np.asarray(jax.jit(linear)(jnp.asarray(x), weight))
    expected = x.astype(np.float64) @ values.astype(np.float64).T
    assert found.shape == (*batch, rows)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-6 * np.abs(expected).max())


@pytest.mark.parametrize("kind", _WEIGHTS)
def test_rows_are_those_of_the_whole(kind: str) -> None:
    weight, values = _WEIGHTS[kind](12)
    rows = np.array([[3, 0, 11], [3, 3, 5]], np.int32)
    np.testing.assert_array_equal(rows_of(weight, jnp.asarray(rows)), values[rows])
    np.testing.assert_array_equal(values_of(weight), values)


@pytest.mark.parametrize("kind", _WEIGHTS)
def test_parts_of_fused_matrices_are_their_rows(kind: str) -> None:
    weight, values = _WEIGHTS[kind](24)
    stack = jax.tree.map(lambda array: array.reshape(2, 12, -1), weight)
    parts = split_rows(stack, (5, 1, 6))
    assert [part.shape for part in parts] == [(2, 5, 256), (2, 1, 256), (2, 6, 256)]
    for index in range(2):
        found = [values_of(expert(part, index)) for part in parts]
        np.testing.assert_array_equal(np.concatenate(found), values[12 * index : 12 * index + 12])
    with pytest.raises(ValueError, match="12 rows in all"):
        split_rows(stack, (5, 5))


@pytest.mark.parametrize("kind", _WEIGHTS)
def test_an_expert_is_one_matrix_of_its_stack(kind: str) -> None:
    weight, values = _WEIGHTS[kind](12)
    stack = jax.tree.map(lambda array: array.reshape(3, 4, -1), weight)
    for index in range(3):
        one = jax.jit(lambda stack, index: values_of(expert(stack, index)))(stack, index)
        np.testing.assert_array_equal(one, values[4 * index : 4 * index + 4])


@pytest.mark.parametrize("name", ["quant/llama-smollm-Q4_K_M", "quant/llama-minicpm5-BF16"])
def test_matrices_are_held_as_the_file_packs_them(name: str) -> None:
    """Values bit for bit, bytes as in the file; the map can go."""
    with GGUFFile(golden_file(f"{name}.gguf")) as file:
        reader = WeightReader(file)
        infos = [info for info in file.tensors.values() if len(info.shape) == 2]
        found = [reader.weight(info.name, *info.shape) for info in infos]
        expected = [dequantize(file.tensor(info.name)) for info in infos]
    for info, weight, values in zip(infos, found, expected, strict=True):
        assert held_bytes(weight) == info.size
        np.testing.assert_array_equal(np.asarray(values_of(weight)), values)
    assert held_bytes((found[0], found[0])) == infos[0].size


def test_a_type_without_a_conversion_is_named(tmp_path: Path) -> None:
    """A matrix of 32-bit integers (ggml type 26)."""
    path = tmp_path / "integers.gguf"
    pairs = [builder.text("general.architecture", "toy")]
    path.write_bytes(builder.File(pairs, [builder.tensor("w", [8, 4], 26, 0)], bytes(128)).pack())
    with GGUFFile(path) as file, pytest.raises(GGUFError, match="'w' is of type I32"):
        WeightReader(file).weight("w", 4, 8)
