"""Products with raw blocks in Triton's interpreter, against values by the gguf package in float64.

The interpreter multiplies the bits of bfloat16 in `tl.dot`, so that what goes to the tensor cores
is float32 and float16 here.
"""

from __future__ import annotations

import gguf
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pantheon.engine.kernels.packed_matmul.cases import RAW_CASES, Case
from pantheon.engine.kernels.packed_matmul.raw_types import RAW_TYPES
from pantheon.engine.kernels.packed_matmul.triton_product import MOST_FEW, product_launch
from tests.golden import golden_arrays
from tests.kernels_gpu.interpreted.interpreter import interpreted
from tests.kernels_gpu.interpreted.raw_blocks import far, raw_matrices

_FLOAT32 = 1e-6
_FLOAT16 = 1e-3
"""Weights are rounded to 11 bits before the tensor cores take them."""


def _product(x: np.ndarray, data: np.ndarray, type: str) -> np.ndarray:
    launch = product_launch(x.shape, x.dtype.name, data.shape, type)
    return interpreted(launch, x, data, shape=(x.shape[0], data.shape[0]))


def _activations(rows: int, columns: int, dtype: type = np.float32, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, columns)).astype(dtype)


@pytest.mark.parametrize("type", RAW_TYPES)
def test_layouts_are_those_of_ggml(type: str) -> None:
    """`GGML_QUANT_SIZES` of the gguf package."""
    kind = RAW_TYPES[type]
    sizes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[type]]
    assert (kind.values, kind.size) == sizes
    assert kind.parts * kind.units * 16 == kind.values


@pytest.mark.parametrize("type", RAW_TYPES)
def test_blocks_are_ggmls_values_bit_for_bit(type: str) -> None:
    """All reference blocks, those of extreme scales too, times an identity: each sum has one
    term that is not zero."""
    blocks = golden_arrays(f"blocks/{type}.npz")
    identity = np.eye(RAW_TYPES[type].values, dtype=np.float32)
    found = _product(identity, blocks["packed"], type)
    np.testing.assert_array_equal(found.T, blocks["dequantized"])


@pytest.mark.parametrize("case", RAW_CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("type", RAW_TYPES)
def test_products_are_those_of_the_values(type: str, case: Case) -> None:
    data, values = raw_matrices(type, (case.outputs,), case.inputs)
    x = _activations(case.rows, case.inputs)
    assert far(_product(x, data, type), x, values) < _FLOAT32


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_few_rows_of_any_type_are_multiplied_in_float32(dtype: type) -> None:
    data, values = raw_matrices("Q4_K", (20,), 512)
    x = _activations(2, 512, dtype)
    assert far(_product(x, data, "Q4_K"), x, values) < _FLOAT32


@pytest.mark.parametrize("type", RAW_TYPES)
def test_many_rows_in_float16(type: str) -> None:
    data, values = raw_matrices(type, (20,), 256)
    # Of a scale at which no weight leaves float16's range.
    data, values = _within_float16(type, data, values)
    x = _activations(9, 256, np.float16)
    assert far(_product(x, data, type), x, values) < _FLOAT16


def _within_float16(
    type: str, data: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose largest weight is neither near float16's largest number nor subnormal."""
    largest = np.abs(values).max(axis=1)
    kept = (largest < 1e4) & (largest > 1e-2)
    assert kept.sum() >= 2, type
    return data[kept], values[kept]


@pytest.mark.parametrize("rows", [2, 3, 8])
def test_a_row_is_the_same_among_few_others(rows: int) -> None:
    """Bit for bit, also beside rows that are not finite."""
    data, _ = raw_matrices("Q5_K", (20,), 768)
    x = _activations(rows, 768)
    alone = _product(x[:1], data, "Q5_K")
    x[1:] = np.inf
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(_product(x, data, "Q5_K")[:1], alone)


def test_a_row_is_the_same_among_many_others() -> None:
    """Bit for bit, in a tile that is not full and in one that is."""
    data, _ = raw_matrices("Q6_K", (20,), 512)
    x = _activations(70, 512)
    few = _product(x[: MOST_FEW + 1], data, "Q6_K")
    np.testing.assert_array_equal(_product(x, data, "Q6_K")[: MOST_FEW + 1], few)


@settings(max_examples=8, deadline=None)
@given(
    type=st.sampled_from(["Q4_0", "Q8_0", "Q4_K"]),
    rows=st.integers(1, 20),
    outputs=st.integers(1, 70),
    blocks=st.integers(1, 9),
)
def test_shapes_fill_no_tile(type: str, rows: int, outputs: int, blocks: int) -> None:
    columns = blocks * RAW_TYPES[type].values
    data, values = raw_matrices(type, (outputs,), columns)
    x = _activations(rows, columns)
    assert far(_product(x, data, type), x, values) < _FLOAT32


@pytest.mark.parametrize(
    ("x_shape", "x_type", "data_shape", "type", "says"),
    [
        ((1, 256), "float32", (4, 144), "IQ4_XS", "type: expected one of Q4_0"),
        ((1, 256), "int8", (4, 144), "Q4_K", "x: expected one of bfloat16, float16, float32"),
        ((1, 512), "float32", (4, 144), "Q4_K", "x: expected 256 columns, got 512"),
        ((1, 256), "float32", (4, 143), "Q4_K", "row_bytes: expected a multiple of 144, got 143"),
    ],
)
def test_what_does_not_fit_is_refused(
    x_shape: tuple[int, int], x_type: str, data_shape: tuple[int, int], type: str, says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        product_launch(x_shape, x_type, data_shape, type)
