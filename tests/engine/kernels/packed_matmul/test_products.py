"""Products of the native kernels in float32 against the values by ggml's own conversion, in
float64; and that a row's result, in float32 or not, depends on nothing but the row and the kind of
the step (ARCHITECTURE.md, the same answer alone and in company)."""

from __future__ import annotations

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray

from pantheon.engine.kernels.native import InstructionSet, native_library
from pantheon.engine.kernels.packed_matmul import (
    Format,
    InterleavedMatrix,
    products,
    taken_rows,
)
from pantheon.engine.precision import Precision
from tests.engine.kernels.packed_matmul.packed_matrices import SOURCES, sample

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
_MOST_IN_WHOLE = 16
_ROUNDING = 2e-6
"""Of float32 sums of some hundred terms, relative to the sum of their magnitudes."""


def _product(
    x: NDArray[np.float32],
    *matrices: InterleavedMatrix,
    using: InstructionSet = InstructionSet.BEST,
) -> list[NDArray[np.float32]]:
    return [np.asarray(one) for one in _JITTED(jnp.asarray(x), list(matrices), None, using)]


def _activations(rows: int, columns: int, seed: int = 1) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((rows, columns), np.float32)


def _check(found: NDArray[np.float32], x: NDArray[np.float32], values: NDArray[np.float32]) -> None:
    exact = x.astype(np.float64) @ values.astype(np.float64).T
    magnitude = np.abs(x).astype(np.float64) @ np.abs(values).astype(np.float64).T
    assert (np.abs(found - exact) <= _ROUNDING * magnitude + 1e-30).all()


@pytest.mark.parametrize("using", _SETS, ids=lambda one: one.name)
@pytest.mark.parametrize("source", SOURCES)
def test_rows_are_ggmls_values_bit_for_bit(source: str, using: InstructionSet) -> None:
    """Golden blocks of every type (tests/data/blocks); the last block of rows is not full."""
    packed = sample(source, 77, 512)
    indices = np.array([0, 76, 31, 32, 5, 5], np.int32)
    found = jax.jit(lambda matrix, rows: taken_rows(matrix, rows, using))(
        packed.matrix(Precision.FLOAT32), jnp.asarray(indices)
    )
    # Scales of INT8 have all bits of a float32, so that their products are rounded.
    tolerance = 1e-6 if source == "INT8" else 0
    np.testing.assert_allclose(np.asarray(found), packed.values[indices], rtol=0, atol=tolerance)


@pytest.mark.parametrize("using", _SETS, ids=lambda one: one.name)
@pytest.mark.parametrize("source", SOURCES)
def test_products_are_those_of_the_values(source: str, using: InstructionSet) -> None:
    """Few rows, and more than the kernels unpack for at a time (128)."""
    packed = sample(source, 45, 768)
    matrix = packed.matrix(Precision.FLOAT32)
    for rows in (1, 2, 3, 4, 5, 8, 13, 130):
        x = _activations(rows, 768)
        (found,) = _product(x, matrix, using=using)
        assert found.shape == (rows, 45)
        _check(found, x, packed.values)


@pytest.mark.parametrize("outputs", [1, 31, 32, 33, 192])
@pytest.mark.parametrize("inputs", [256, 512, 1280])
def test_shapes_that_come_out_uneven(outputs: int, inputs: int) -> None:
    packed = sample("Q4_K", outputs, inputs)
    x = _activations(9, inputs)
    (found,) = _product(x, packed.matrix(Precision.FLOAT32))
    _check(found, x, packed.values)


@pytest.mark.parametrize("columns", [32, 96, 160])
def test_types_of_short_blocks_take_every_whole_number_of_them(columns: int) -> None:
    for source in ("Q4_0", "Q5_1", "Q8_0", "F16"):
        packed = sample(source, 40, columns)
        x = _activations(6, columns)
        (found,) = _product(x, packed.matrix(Precision.FLOAT32))
        _check(found, x, packed.values)


def test_several_matrices_of_different_types_go_in_one_call() -> None:
    """Each as if it were alone, bit for bit."""
    packed = [sample("Q4_1", 96, 256), sample("Q6_K", 33, 256), sample("F32", 1, 256)]
    matrices = [one.matrix(Precision.FLOAT32) for one in packed]
    for rows in (1, 7, 40):
        x = _activations(rows, 256)
        for found, one, matrix in zip(_product(x, *matrices), packed, matrices, strict=True):
            _check(found, x, one.values)
            np.testing.assert_array_equal(found, _product(x, matrix)[0])


@pytest.mark.parametrize("using", _SETS, ids=lambda one: one.name)
@pytest.mark.parametrize("source", ["F32", "Q4_0", "Q4_1", "Q8_0", "Q4_K", "Q6_K", "IQ4_NL"])
@pytest.mark.parametrize("precision", Precision)
def test_a_row_depends_on_no_other(
    precision: Precision, source: str, using: InstructionSet
) -> None:
    """Wherever it stands, and whatever the number of rows on either side of the largest that codes
    are multiplied for in whole numbers: bit for bit."""
    matrix = sample(source, 70, 512).matrix(precision)
    x = _activations(131, 512)
    few = (1, 2, 3, 4, 5, 6, 7, 8, 9, _MOST_IN_WHOLE)
    many = (_MOST_IN_WHOLE + 1, 65, 128, 129)
    (whole,) = _product(x, matrix, using=using)
    for count in many if precision is Precision.DEFAULT else few + many:
        first = (17 * count) % (132 - count)
        (part,) = _product(x[first : first + count], matrix, using=using)
        np.testing.assert_array_equal(part, whole[first : first + count])
    (whole,) = _product(x[:_MOST_IN_WHOLE], matrix, using=using)
    for count in few:
        first = 5 * count % (_MOST_IN_WHOLE + 1 - count)
        (part,) = _product(x[first : first + count], matrix, using=using)
        np.testing.assert_array_equal(part, whole[first : first + count])


_SAMPLE = sample("Q4_K", 40, 256) if _LIBRARY.missing is None else None


@settings(max_examples=40, deadline=None)
@given(
    precision=st.sampled_from(Precision),
    rows=st.sampled_from([1, 2, 4, 8, 30]),
    place=st.integers(0, 29),
    scale=st.sampled_from([0.0, 1e-30, 1.0, 1e30, np.inf, np.nan]),
    seed=st.integers(0, 2**32 - 1),
)
def test_neighbours_of_any_kind_change_nothing(
    precision: Precision, rows: int, place: int, scale: float, seed: int
) -> None:
    """Not even rows that are not numbers."""
    assert _SAMPLE is not None
    matrix = _SAMPLE.matrix(precision)
    own = _activations(1, 256, seed)
    with np.errstate(invalid="ignore"):
        x = _activations(rows, 256, seed + 1) * np.float32(scale)
    x[place % rows] = own
    (alike,) = _product(np.repeat(own, rows, axis=0), matrix)
    np.testing.assert_array_equal(_product(x, matrix)[0][place % rows], alike[0])


def test_the_kernels_read_what_the_layout_writes() -> None:
    """`native/layout.h` and `formats.py` have the same numbers."""
    for format in Format:
        columns = 3 * format.span_columns
        assert _LIBRARY.block_bytes(format.number, columns) == format.block_bytes(columns)
        assert not _LIBRARY.block_bytes(format.number, columns + 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"columns": 288}, "columns|blocks of"),
        ({"rows": 97}, "4 blocks"),
        ({"format": Format.Q8_0}, "blocks of 8704 bytes"),
    ],
)
def test_what_does_not_fit_together_is_an_error(change: dict[str, object], message: str) -> None:
    """At the boundary, and never a read outside an array."""
    good = sample("Q4_0", 96, 256).matrix()
    fields = {"data": good.data, "format": good.format, "rows": 96, "columns": 256}
    bad = InterleavedMatrix(**(fields | change))  # type: ignore[arg-type]
    x = _activations(2, bad.columns)
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        _product(x, bad)


@pytest.mark.parametrize("index", [-1, 96, 2**31 - 1])
def test_a_row_that_there_is_not_is_an_error(index: int) -> None:
    matrix = sample("Q4_0", 96, 256).matrix()
    with pytest.raises(jax.errors.JaxRuntimeError, match="an index below 96"):
        jax.block_until_ready(jax.jit(taken_rows)(matrix, jnp.array([0, index], jnp.int32)))


def test_an_instruction_set_that_there_is_not_is_an_error() -> None:
    missing = [one for one in InstructionSet if not _LIBRARY.has(one)]
    if not missing:
        pytest.skip("this processor has every instruction set")
    matrix = sample("Q4_0", 32, 256).matrix()
    with pytest.raises(jax.errors.JaxRuntimeError, match="instruction set"):
        _product(_activations(1, 256), matrix, using=missing[0])
