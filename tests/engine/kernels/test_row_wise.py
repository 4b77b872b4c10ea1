"""Norms, gates and rotations by the native kernels, against numpy in float64."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pantheon.engine.kernels import row_wise
from pantheon.engine.kernels.native import InstructionSet, native_library

_LIBRARY = native_library()
pytestmark = pytest.mark.skipif(
    _LIBRARY.missing is not None, reason=f"no native kernels: {_LIBRARY.missing}"
)
_SETS = [
    one
    for one in InstructionSet
    if _LIBRARY.missing is None and one is not InstructionSet.BEST and _LIBRARY.has(one)
]
_SHAPES = [(1, 576), (8, 1536), (128, 576), (3, 7), (2, 1), (5, 130)]


def _rows(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


@pytest.mark.parametrize("shape", _SHAPES)
@pytest.mark.parametrize("instruction_set", _SETS)
def test_rms_norm(instruction_set: InstructionSet, shape: tuple[int, int]) -> None:
    """Zhang and Sennrich, 2019, equation 4."""
    x, weight = 3 * _rows(1, *shape), _rows(2, shape[1])
    found = row_wise.rms_norm(
        jnp.asarray(x), jnp.asarray(weight), 1e-5, instruction_set=instruction_set
    )
    exact = x.astype(np.float64)
    root = np.sqrt(np.mean(exact**2, axis=1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(found, exact / root * weight, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("shape", _SHAPES)
@pytest.mark.parametrize("instruction_set", _SETS)
def test_add_rms_norm(instruction_set: InstructionSet, shape: tuple[int, int]) -> None:
    """The sum is numpy's, and the norm is that of the sum."""
    x, delta, weight = 3 * _rows(1, *shape), _rows(2, *shape), _rows(3, shape[1])
    total, normed = row_wise.add_rms_norm(
        *map(jnp.asarray, (x, delta, weight)), 1e-5, instruction_set=instruction_set
    )
    np.testing.assert_array_equal(total, x + delta)
    exact = (x + delta).astype(np.float64)
    root = np.sqrt(np.mean(exact**2, axis=1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(normed, exact / root * weight, rtol=1e-6, atol=1e-7)


_LIVE = [(0, 12), (0, 5), (3, 12), (4, 9), (6, 6), (0, 0)]


@pytest.mark.parametrize("bounds", _LIVE)
@pytest.mark.parametrize("instruction_set", _SETS)
def test_padding_comes_out_as_zeros_and_changes_nothing(
    instruction_set: InstructionSet, bounds: tuple[int, int]
) -> None:
    """Whatever stands in it: a division by nothing must not trap, nor a number leak out."""
    first, end = bounds
    is_live = (first <= np.arange(12)) & (np.arange(12) < end)
    x, other = _rows(1, 2, 6, 3, 130), _rows(2, 2, 6, 3, 130)
    weight, by = jnp.asarray(_rows(3, 130)), jnp.asarray(_rows(4, 2, 6, 2, 20))

    def results(x: np.ndarray, other: np.ndarray, live: jax.Array | None) -> list[np.ndarray]:
        heads, tokens = jnp.asarray(x), jnp.asarray(x[:, :, 0])
        more = jnp.asarray(other[:, :, 0])
        found = [
            row_wise.rms_norm(heads, weight, 1e-5, live, instruction_set),
            row_wise.rotate(heads, by, live, neighbours=True, instruction_set=instruction_set),
            row_wise.silu_product(tokens, more, live, instruction_set),
            *row_wise.add_rms_norm(tokens, more, weight, 1e-5, live, instruction_set),
        ]
        return [np.asarray(one).reshape(12, -1) for one in found]

    expected = results(x, other, None)
    for array in (x, other):
        array.reshape(12, -1)[~is_live] = np.nan
    for found, whole in zip(results(x, other, jnp.array(bounds, jnp.int32)), expected, strict=True):
        np.testing.assert_array_equal(found[is_live], whole[is_live])
        np.testing.assert_array_equal(found[~is_live], 0)


@pytest.mark.parametrize("bounds", [(-1, 3), (2, 1), (0, 5)])
def test_live_tokens_that_do_not_exist_fail_the_step(bounds: tuple[int, int]) -> None:
    x = jnp.ones((4, 8))
    with pytest.raises(jax.errors.JaxRuntimeError, match="expected live rows of 4"):
        jax.block_until_ready(row_wise.silu_product(x, x, jnp.array(bounds, jnp.int32)))


@pytest.mark.parametrize("shape", _SHAPES)
@pytest.mark.parametrize("instruction_set", _SETS)
def test_silu_product(instruction_set: InstructionSet, shape: tuple[int, int]) -> None:
    """Shazeer, 2020: Swish with beta 1, times the other projection."""
    gate, up = 20 * _rows(3, *shape), _rows(4, *shape)
    gate.reshape(-1)[: gate.size // 4] *= 5
    found = row_wise.silu_product(
        jnp.asarray(gate), jnp.asarray(up), instruction_set=instruction_set
    )
    exact = gate.astype(np.float64)
    # Below exp(-87) the sigmoid is zero.
    np.testing.assert_allclose(found, exact / (1 + np.exp(-exact)) * up, rtol=1e-6, atol=1e-35)


@pytest.mark.parametrize("instruction_set", _SETS)
def test_what_is_no_number_stays_visible(instruction_set: InstructionSet) -> None:
    x = _rows(5, 3, 20)
    x[1, 4] = np.nan
    one = jnp.ones((3, 20), jnp.float32)
    normed = np.asarray(
        row_wise.rms_norm(jnp.asarray(x), one[0], 1e-6, instruction_set=instruction_set)
    )
    gated = np.asarray(row_wise.silu_product(jnp.asarray(x), one, instruction_set=instruction_set))
    assert np.isnan(normed).all(axis=1).tolist() == [False, True, False]
    assert np.isnan(gated).any(axis=1).tolist() == [False, True, False]


@pytest.mark.parametrize("neighbours", [True, False])
@pytest.mark.parametrize(("head_dim", "turned"), [(64, 64), (32, 8), (80, 80), (12, 6), (2, 2)])
@pytest.mark.parametrize("instruction_set", _SETS)
def test_rotation(
    instruction_set: InstructionSet, head_dim: int, turned: int, neighbours: bool
) -> None:
    """Su et al., 2021: a pair is a complex number, turned by position times frequency."""
    pairs = turned // 2
    x = _rows(6, 2, 3, 5, head_dim)
    positions = np.array([[0, 1, 2], [700, 4000, 31]], np.int32)
    frequencies = (10000.0 ** -(np.arange(pairs) / pairs)).astype(np.float32)
    by = row_wise.rotation(
        jnp.asarray(positions), jnp.asarray(frequencies), magnitude=1.25, neighbours=neighbours
    )
    found = row_wise.rotate(
        jnp.asarray(x), by, neighbours=neighbours, instruction_set=instruction_set
    )
    angles = (positions[..., None].astype(np.float32) * frequencies).astype(np.float64)
    factors = 1.25 * np.exp(1j * angles)[:, :, None]
    places = np.arange(turned).reshape((pairs, 2) if neighbours else (2, pairs))
    first, second = places.T if neighbours else places
    numbers = (x[..., first] + 1j * x[..., second]) * factors
    expected = x.astype(np.float64)
    expected[..., first], expected[..., second] = numbers.real, numbers.imag
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("instruction_set", _SETS)
def test_a_row_is_bitwise_the_same_alone_and_in_company(instruction_set: InstructionSet) -> None:
    x, other, weight = _rows(7, 130, 300), _rows(8, 130, 300), _rows(9, 300)
    normed = np.asarray(
        row_wise.rms_norm(
            jnp.asarray(x), jnp.asarray(weight), 1e-5, instruction_set=instruction_set
        )
    )
    gated = np.asarray(
        row_wise.silu_product(jnp.asarray(x), jnp.asarray(other), instruction_set=instruction_set)
    )
    for row in (0, 77, 129):
        own = slice(row, row + 1)
        alone = row_wise.rms_norm(
            jnp.asarray(x[own]), jnp.asarray(weight), 1e-5, instruction_set=instruction_set
        )
        np.testing.assert_array_equal(alone, normed[own])
        alone = row_wise.silu_product(
            jnp.asarray(x[own]), jnp.asarray(other[own]), instruction_set=instruction_set
        )
        np.testing.assert_array_equal(alone, gated[own])


@pytest.mark.parametrize("shape", [(1, 49152), (8, 1025), (3, 7), (2, 1), (1, 1024), (5, 5000)])
@pytest.mark.parametrize("instruction_set", _SETS)
def test_the_largest_is_the_first_of_those_that_tie(
    instruction_set: InstructionSet, shape: tuple[int, int]
) -> None:
    """As numpy finds it, where many numbers are the same."""
    x = np.floor(4 * _rows(11, *shape))
    x[0] = -np.inf
    x[0, -1] = -3
    places, finite = row_wise.largest(jnp.asarray(x), instruction_set)
    np.testing.assert_array_equal(places, x.argmax(axis=1))
    assert np.all(finite)


@pytest.mark.parametrize("place", [0, 5, 1023, 1030, 2000, 2046])
@pytest.mark.parametrize("odd", [np.nan, np.inf])
@pytest.mark.parametrize("instruction_set", _SETS)
def test_a_row_with_what_is_no_number_is_not_finite(
    instruction_set: InstructionSet, odd: float, place: int
) -> None:
    x = _rows(12, 3, 2047)
    x[1, place] = odd
    x[2] = -np.inf
    places, finite = row_wise.largest(jnp.asarray(x), instruction_set)
    assert finite.tolist() == [True, False, False]
    assert places[0] == x[0].argmax()
    assert min(places.tolist()) >= 0
    assert max(places.tolist()) < 2047


def test_a_rotation_of_more_dimensions_than_a_head_has_fails_the_step() -> None:
    with pytest.raises(jax.errors.JaxRuntimeError, match="expected an even part of 4"):
        jax.block_until_ready(
            row_wise.rotate(jnp.ones((1, 1, 1, 4)), jnp.ones((1, 1, 2, 6)), neighbours=True)
        )
