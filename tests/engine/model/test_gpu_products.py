"""What products on GPUs round (ARCHITECTURE, "Models on a GPU"), against numpy in float64.

The kernels have tests of their own; here they are given what float16 holds."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gguf.quants import dequantize, quantize
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import Array
from numpy.typing import NDArray

from pantheon.engine.gguf import TensorType
from pantheon.engine.kernels.expert_matmul import by_expert
from pantheon.engine.model import Implementation
from pantheon.engine.model import gpu_products as products
from pantheon.engine.model.packed import RawMatrix


@settings(deadline=None)
@given(st.lists(st.integers(-120, 120), min_size=1, max_size=6), st.integers(0, 1 << 16))
def test_rows_fit_into_float16_whatever_their_size(powers: list[int], seed: int) -> None:
    """11 bits of each number that is not far below the largest of its row."""
    drawn = np.random.default_rng(seed).standard_normal((len(powers), 16)).astype(np.float32)
    rows = np.ldexp(drawn, np.array(powers)[:, None]).astype(np.float32)
    scaled, exponents = products._in_float16(jnp.asarray(rows))
    assert scaled.dtype == jnp.float16 and np.isfinite(np.asarray(scaled)).all()
    back = np.ldexp(np.asarray(scaled, np.float64), np.asarray(exponents))
    largest = np.abs(rows).max(axis=1, keepdims=True)
    allowed = np.maximum(np.abs(rows) / 2048, largest.astype(np.float64) * 2.0**-38)
    allowed = np.maximum(allowed, 2.0**-124)
    assert (np.abs(back - rows) <= allowed).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_no_number_stays_none(bad: float) -> None:
    rows = np.ones((2, 4), np.float32)
    rows[0, 2] = bad
    scaled, exponents = products._in_float16(jnp.asarray(rows))
    found = np.asarray(jnp.ldexp(scaled.astype(jnp.float32), exponents))
    assert not np.isfinite(found[0]).all()
    np.testing.assert_array_equal(found[1], rows[1])


def test_a_row_of_zeros_is_one() -> None:
    scaled, exponents = products._in_float16(jnp.zeros((1, 4)))
    assert not np.ldexp(np.asarray(scaled), np.asarray(exponents)).any()


def test_bfloat16_weights_are_multiplied_as_float32() -> None:
    random = np.random.default_rng(5)
    rows = (1e3 * random.standard_normal((3, 256))).astype(np.float32)
    weight = jnp.asarray(random.standard_normal((7, 256)), jnp.bfloat16)
    found = products.gpu_product(jnp.asarray(rows), weight, Implementation.GPU)
    exact = rows.astype(np.float64) @ np.asarray(weight, np.float64).T
    scale = np.abs(rows).astype(np.float64) @ np.abs(np.asarray(weight, np.float64)).T
    assert (np.abs(found - exact) <= scale * 2.0**-20).all()


_COLUMNS = 64
_PIECE_ROWS = 32
_PIECE_BYTES = 4 * _COLUMNS * _PIECE_ROWS


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a matrix of this file needs them."""
    monkeypatch.setattr(products, "PIECE_BYTES", _PIECE_BYTES)


def _of_float16(*shape: int) -> NDArray[np.float16]:
    values = np.random.default_rng(7).standard_normal(math.prod(shape), np.float32)
    return values.reshape(shape).astype(np.float16)


def _largest_float32(step: Callable[..., Array], *arguments: NDArray[Any]) -> int:
    """Bytes of the largest float32 value of a step as it is traced."""
    traced = jax.make_jaxpr(step)(*arguments)
    values = [value.aval for equation in traced.eqns for value in equation.outvars]
    return max(math.prod(one.shape) * 4 for one in values if one.dtype == jnp.float32)


@pytest.mark.usefixtures("small_pieces")
def test_a_large_matrix_is_not_float32_whole() -> None:
    """README, `PN_DIE_RESERVE_BYTES`: what a step takes beside model and cache has to fit into
    it. The last piece is smaller than the others."""
    weight = _of_float16(3 * _PIECE_ROWS + 5, _COLUMNS)
    rows = np.random.default_rng(8).standard_normal((2, _COLUMNS), np.float32)
    step = partial(products.gpu_product, implementation=Implementation.GPU)
    assert _largest_float32(step, rows, weight) == _PIECE_BYTES
    found = np.asarray(step(jnp.asarray(rows), jnp.asarray(weight)))
    some = [0, _PIECE_ROWS - 1, _PIECE_ROWS, 2 * _PIECE_ROWS, 3 * _PIECE_ROWS, len(weight) - 1]
    expected = rows.astype(np.float64) @ weight[some].astype(np.float64).T
    np.testing.assert_allclose(found[:, some], expected, rtol=1e-5, atol=1e-4)


def test_tokens_are_multiplied_by_the_experts_that_they_chose() -> None:
    """Some choose no expert: places of padding are zeros. Values by the package gguf."""
    random = np.random.default_rng(6)
    x = random.standard_normal((5, 32)).astype(np.float32)
    packed = quantize(random.standard_normal((4, 6, 32)).astype(np.float32), TensorType.Q8_0)
    stack = dequantize(packed, TensorType.Q8_0)
    chosen = np.array([[0, 2], [3, 2], [2, 1], [4, 4], [0, 3]], np.int32)
    pairs = by_expert(jnp.asarray(chosen), 4)
    found = products.gpu_expert_product(
        jnp.asarray(x),
        RawMatrix(jnp.asarray(packed), TensorType.Q8_0, 32),
        pairs,
        pairs.order // 2,
        Implementation.GPU_INTERPRETED,
        few=False,
    )
    for place, pair in enumerate(np.asarray(pairs.order)):
        token, expert = pair // 2, chosen.reshape(-1)[pair]
        expected = stack[expert] @ x[token] if expert < 4 else np.zeros(6, np.float32)
        np.testing.assert_allclose(found[place], expected, rtol=1e-5, atol=1e-5)
