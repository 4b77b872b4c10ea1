"""Products of codes with activations of 16 bits against the values by ggml's own conversion, in
float64, within the rounding that `Precision` documents: an activation is off by at most half of
1 / 32767 of the largest of its 32."""

from __future__ import annotations

import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray

from pantheon.engine.kernels.native import InstructionSet, native_library
from pantheon.engine.kernels.packed_matmul import InterleavedMatrix, products
from pantheon.engine.precision import Precision
from tests.engine.kernels.packed_matmul.packed_matrices import BLOCKS, PLAIN, sample

_LIBRARY = native_library()
pytestmark = pytest.mark.skipif(
    _LIBRARY.missing is not None, reason=f"no native kernels: {_LIBRARY.missing}"
)
_SETS = [
    one
    for one in InstructionSet
    if one is not InstructionSet.BEST and _LIBRARY.missing is None and _LIBRARY.has(one)
]
_JITTED = jax.jit(products, static_argnums=3)
_CODES = (*BLOCKS, "INT8")
_HALF_STEP = 0.505 / 32767
"""What an activation may be off, of the largest of its 32: half a step, and the rounding of the
scale and of its inverse, each 2**-24 of up to 32767 steps."""

_SMALLEST_STEP = float(np.finfo(np.float32).tiny)
_ROUNDING = 2e-6
"""Of float32 sums of some groups, relative to the sum of their magnitudes."""


def _product(
    x: NDArray[np.float32],
    matrix: InterleavedMatrix,
    using: InstructionSet = InstructionSet.BEST,
) -> NDArray[np.float32]:
    return np.asarray(_JITTED(x, [matrix], None, using)[0])


def _activations(rows: int, columns: int, seed: int = 1) -> NDArray[np.float32]:
    """Steps of very different sizes beside each other."""
    drawn = np.random.default_rng(seed)
    x = drawn.standard_normal((rows, columns // 32, 32), np.float32)
    sizes = np.exp(drawn.normal(0, 3, (rows, columns // 32, 1))).astype(np.float32)
    return (x * sizes).reshape(rows, columns)


def _check(found: NDArray[np.float32], x: NDArray[np.float32], values: NDArray[np.float32]) -> None:
    wide, weights = x.astype(np.float64), values.astype(np.float64)
    steps = np.abs(wide).reshape(len(x), -1, 32)
    off = np.maximum(steps.max(axis=-1, keepdims=True) * _HALF_STEP, _SMALLEST_STEP)
    bound = (_ROUNDING * steps + off).reshape(x.shape) @ np.abs(weights).T
    assert (np.abs(found - wide @ weights.T) <= bound + 1e-37).all()


@pytest.mark.parametrize("using", _SETS, ids=lambda one: one.name)
@pytest.mark.parametrize("source", _CODES)
def test_products_are_those_of_the_values(source: str, using: InstructionSet) -> None:
    packed = sample(source, 45, 768)
    matrix = packed.matrix()
    for rows in (1, 2, 3, 4, 9, 16):
        x = _activations(rows, 768)
        _check(_product(x, matrix, using), x, packed.values)


@pytest.mark.parametrize("source", _CODES)
def test_bits_depend_neither_on_the_instruction_set_nor_on_other_rows(source: str) -> None:
    """For every number of rows that a decode step may have."""
    matrix = sample(source, 40, 512).matrix()
    x = _activations(16, 512)
    whole = _product(x, matrix, _SETS[0])
    for using in _SETS[1:]:
        np.testing.assert_array_equal(_product(x, matrix, using), whole)
    for rows in range(1, 16):
        first = 5 * rows % (17 - rows)
        found = _product(x[first : first + rows], matrix, _SETS[rows % len(_SETS)])
        np.testing.assert_array_equal(found, whole[first : first + rows])


@settings(max_examples=40, deadline=None)
@given(
    source=st.sampled_from(["Q4_0", "Q5_1", "Q8_0", "IQ4_NL", "MXFP4"]),
    rows=st.integers(1, 16),
    outputs=st.integers(1, 100),
    steps=st.integers(1, 9),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_shape(source: str, rows: int, outputs: int, steps: int, seed: int) -> None:
    packed = sample(source, outputs, 32 * steps, seed)
    x = _activations(rows, 32 * steps, seed)
    _check(_product(x, packed.matrix()), x, packed.values)


@pytest.mark.parametrize("source", ["Q4_0", "Q4_1", "Q6_K"])
@pytest.mark.parametrize("size", [0.0, 1e-44, 1e-40, 2e-38, 1e-30, 1e33])
def test_the_smallest_and_the_largest_activations(source: str, size: float) -> None:
    """What is below the smallest normal number may be lost; nothing else is."""
    packed = sample(source, 33, 256)
    x = (np.random.default_rng(3).uniform(-1, 1, (3, 256)) * size).astype(np.float32)
    found = _product(x, packed.matrix())
    assert np.isfinite(found).all()
    _check(found, x, packed.values)
    if size == 0:
        assert not found.any()


@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("source", ["Q4_0", "Q4_K", "Q6_K"])
def test_what_is_not_finite_is_seen_in_every_output(source: str, bad: float) -> None:
    """Of its own row, and of no other."""
    matrix = sample(source, 33, 256).matrix()
    x = _activations(3, 256)
    good = _product(x, matrix)
    for column in (0, 77, 255):
        broken = x.copy()
        broken[1, column] = bad
        found = _product(broken, matrix)
        assert np.isnan(found[1]).all()
        np.testing.assert_array_equal(found[[0, 2]], good[[0, 2]])


@pytest.mark.parametrize("source", PLAIN)
def test_plain_floats_are_multiplied_in_float32_in_any_case(source: str) -> None:
    packed = sample(source, 40, 256)
    x = _activations(3, 256)
    np.testing.assert_array_equal(
        _product(x, packed.matrix()), _product(x, packed.matrix(Precision.FLOAT32))
    )
