"""What products on GPUs round (ARCHITECTURE, "Models on a GPU"), against numpy in float64.

The kernels have tests of their own; here they are given what float16 holds."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pantheon.engine.kernels.expert_matmul import by_expert
from pantheon.engine.model import Implementation
from pantheon.engine.model import gpu_products as products


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


def test_tokens_are_multiplied_by_the_experts_that_they_chose() -> None:
    """Some choose no expert: places of padding are zeros."""
    random = np.random.default_rng(6)
    x = random.standard_normal((5, 8)).astype(np.float32)
    stack = random.standard_normal((4, 6, 8)).astype(np.float32)
    chosen = np.array([[0, 2], [3, 2], [2, 1], [4, 4], [0, 3]], np.int32)
    pairs = by_expert(jnp.asarray(chosen), 4)
    found = products.gpu_expert_product(
        jnp.asarray(x),
        jnp.asarray(stack),
        pairs,
        pairs.order // 2,
        Implementation.GPU,
        few=False,
    )
    for place, pair in enumerate(np.asarray(pairs.order)):
        token, expert = pair // 2, chosen.reshape(-1)[pair]
        expected = stack[expert] @ x[token] if expert < 4 else np.zeros(6, np.float32)
        np.testing.assert_allclose(found[place], expected, rtol=1e-5, atol=1e-5)
