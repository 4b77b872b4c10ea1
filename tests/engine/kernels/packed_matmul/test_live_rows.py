"""Products of a step that is partly padding: `products`, `live`."""

from __future__ import annotations

from collections.abc import Sequence

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from numpy.typing import NDArray

from pantheon.engine.kernels.native import InstructionSet, native_library
from pantheon.engine.kernels.packed_matmul import InterleavedMatrix, products
from pantheon.engine.precision import Precision
from tests.engine.kernels.packed_matmul.packed_matrices import sample

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
_ROWS = [1, 2, 8, 16, 17, 40, 130]
"""Decode steps, both sides of where floats take over from whole numbers (16) and of the rows that
the float kernels unpack for at a time (128)."""


def _product(
    x: NDArray[np.float32],
    matrices: Sequence[InterleavedMatrix],
    live: Sequence[int] | None,
    using: InstructionSet = InstructionSet.BEST,
) -> list[NDArray[np.float32]]:
    bounds = None if live is None else jnp.array(live, jnp.int32)
    return [np.asarray(one) for one in _JITTED(jnp.asarray(x), list(matrices), bounds, using)]


def _activations(rows: int, seed: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((rows, 256), np.float32)


@settings(max_examples=80, deadline=None)
@given(
    precision=st.sampled_from(Precision),
    using=st.sampled_from([InstructionSet.BEST, *_SETS]),
    rows=st.sampled_from(_ROWS),
    ends=st.tuples(st.integers(0, 130), st.integers(0, 130)),
    padding=st.sampled_from([0.0, 1.0, 1e30, np.inf, np.nan]),
    seed=st.integers(0, 2**32 - 1),
)
@example(Precision.DEFAULT, InstructionSet.BEST, 130, (127, 130), np.nan, 0)
@example(Precision.FLOAT32, InstructionSet.BEST, 130, (3, 130), np.nan, 0)
@example(Precision.DEFAULT, InstructionSet.BEST, 8, (8, 8), np.nan, 0)
def test_live_rows_are_those_of_the_whole_product_and_the_others_zeros(
    precision: Precision,
    using: InstructionSet,
    rows: int,
    ends: tuple[int, int],
    padding: float,
    seed: int,
) -> None:
    """Bit for bit, of several matrices in one call, and whatever the padding holds."""
    first, end = sorted(min(one, rows) for one in ends)
    matrices = [
        sample("Q4_0", 70, 256).matrix(precision),
        sample("Q6_K", 33, 256).matrix(precision),
        sample("F32", 1, 256).matrix(precision),
    ]
    x = _activations(rows, seed)
    whole = _product(x, matrices, None, using)
    x[:first] *= np.float32(padding)
    x[end:] *= np.float32(padding)
    for found, expected in zip(_product(x, matrices, [first, end], using), whole, strict=True):
        np.testing.assert_array_equal(found[first:end], expected[first:end])
        assert not found[:first].any()
        assert not found[end:].any()


@settings(max_examples=30, deadline=None)
@given(
    rows=st.integers(1, 20),
    bounds=st.tuples(
        *2 * [st.integers(-3, 23) | st.sampled_from([-(2**31), 2**31 - 1])],
    ),
)
@example(8, (5, 4))
@example(8, (-1, 4))
@example(8, (0, 9))
@example(8, (9, 9))
def test_bounds_that_are_no_rows_are_an_error(rows: int, bounds: tuple[int, int]) -> None:
    """At the boundary, and never a read outside an array; a range may be empty."""
    matrix = sample("Q4_0", 33, 256).matrix()
    x = _activations(rows, 1)
    first, end = bounds
    if 0 <= first <= end <= rows:
        (found,) = _product(x, [matrix], bounds)
        assert found.shape == (rows, 33)
        assert found.any(axis=1).tolist() == [first <= row < end for row in range(rows)]
    else:
        message = f"live rows of {rows} from {first}, got {end}"
        # Whichever thread of JAX's runs the step decides which of the two it becomes.
        with pytest.raises((jax.errors.JaxRuntimeError, ValueError), match=message):
            _product(x, [matrix], bounds)


@pytest.mark.parametrize("bounds", [[], [1], [0, 1, 1]])
def test_bounds_are_two(bounds: list[int]) -> None:
    matrix = sample("Q4_0", 33, 256).matrix()
    with pytest.raises(jax.errors.JaxRuntimeError, match="the first live row and the end"):
        _product(_activations(2, 1), [matrix], bounds)
