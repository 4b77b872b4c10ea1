"""Norms, gates and rotations by the Pallas kernels, interpreted, against numpy in float64."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.mesh import AbstractDevice
from jax.sharding import AbstractMesh, use_abstract_mesh

from pantheon.engine.kernels.row_wise import pallas
from pantheon.engine.kernels.row_wise.cases import CASES, Case

_every = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
# Interpreted, a kernel is a large program that runs for a moment.
_jit = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
rms_norm = _jit(partial(pallas.rms_norm, interpret=True), static_argnums=2)
add_rms_norm = _jit(partial(pallas.add_rms_norm, interpret=True), static_argnums=3)
silu_product = _jit(partial(pallas.silu_product, interpret=True))
rotate = _jit(partial(pallas.rotate, interpret=True), static_argnames="neighbours")


@_every
def test_rms_norm(case: Case) -> None:
    """Zhang and Sennrich, 2019, equation 4, of each head of each token; padding is not read."""
    x = 3 * case.normal(1, case.heads, case.head_dim)
    weight = case.normal(3, case.head_dim)[0, 0]
    x[:, case.tokens - 1] = np.nan if case.tokens > 1 else 1
    end = max(case.tokens - 1, 1)
    live = jnp.array([0, end], jnp.int32)
    found = np.asarray(rms_norm(jnp.asarray(x), jnp.asarray(weight), 1e-5, live))
    exact = x[:, :end].astype(np.float64)
    root = np.sqrt(np.mean(exact**2, axis=-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(found[:, :end], exact / root * weight, rtol=2e-6, atol=1e-7)
    assert not found[:, end:].any()
    whole = rms_norm(jnp.asarray(x[:, :end]), jnp.asarray(weight), 1e-5)
    np.testing.assert_array_equal(whole, found[:, :end])


@_every
def test_add_rms_norm(case: Case) -> None:
    """Zhang and Sennrich, 2019, equation 4, of the sum."""
    x, delta = 3 * case.normal(1, case.hidden), case.normal(2, case.hidden)
    weight = case.normal(3, case.hidden)[0, 0]
    total, normed = add_rms_norm(*map(jnp.asarray, (x, delta, weight)), 1e-5)
    np.testing.assert_array_equal(total, x + delta)
    exact = (x + delta).astype(np.float64)
    root = np.sqrt(np.mean(exact**2, axis=-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(normed, exact / root * weight, rtol=2e-6, atol=1e-7)


@_every
def test_silu_product(case: Case) -> None:
    """Shazeer, 2020: Swish with beta 1, times the other projection."""
    gate, up = 20 * case.normal(1, case.inner), case.normal(2, case.inner)
    gate[..., : case.inner // 4] *= 5
    found = silu_product(jnp.asarray(gate), jnp.asarray(up))
    exact = gate.astype(np.float64)
    # Below exp(-87) the sigmoid is zero.
    np.testing.assert_allclose(found, exact / (1 + np.exp(-exact)) * up, rtol=2e-6, atol=1e-35)


@_every
def test_rotate(case: Case) -> None:
    """Su et al., 2021: a pair is a complex number, times another for its token."""
    x = case.normal(1, case.heads, case.head_dim)
    pairs = case.turned // 2
    shape, axis = ((pairs, 2), -1) if case.neighbours else ((2, pairs), -2)
    factors = case.normal(2, pairs) + 1j * case.normal(3, pairs)
    cosines = np.stack([factors.real] * 2, axis).reshape(*factors.shape[:2], -1)
    sines = np.stack([-factors.imag, factors.imag], axis).reshape(*factors.shape[:2], -1)
    by = np.stack([cosines, sines], axis=2).astype(np.float32)
    found = rotate(jnp.asarray(x), jnp.asarray(by), neighbours=case.neighbours)
    first, second = np.moveaxis(np.arange(case.turned).reshape(shape), axis, 0)
    numbers = (x[..., first] + 1j * x[..., second]) * factors[:, :, None]
    expected = x.astype(np.float64)
    expected[..., first], expected[..., second] = numbers.real, numbers.imag
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("bounds", [(0, 5), (2, 5), (1, 3), (4, 4)])
def test_padding_comes_out_as_zeros_and_changes_nothing(bounds: tuple[int, int]) -> None:
    """Whatever stands in it: a number that is none must not leak out."""
    case = CASES[2]
    first, end = bounds
    is_live = (first <= np.arange(case.tokens)) & (np.arange(case.tokens) < end)
    arrays = [
        case.normal(1, case.hidden),
        case.normal(2, case.hidden),
        case.normal(3, case.heads, case.head_dim),
        case.normal(4, 2, case.turned),
    ]
    weight = jnp.ones(case.hidden)

    def results(arrays: list[np.ndarray], live: jax.Array | None) -> list[np.ndarray]:
        x, delta, heads, by = map(jnp.asarray, arrays)
        found = [
            *add_rms_norm(x, delta, weight, 1e-5, live),
            silu_product(x, delta, live),
            rotate(heads, by, live, neighbours=False),
        ]
        return [np.asarray(one)[0] for one in found]

    expected = results(arrays, None)
    for array in arrays:
        array[0, ~is_live] = np.nan
    for found, whole in zip(results(arrays, jnp.array(bounds)), expected, strict=True):
        np.testing.assert_array_equal(found[is_live], whole[is_live])
        np.testing.assert_array_equal(found[~is_live], 0)


def test_rows_of_16_bits_are_rounded_once() -> None:
    case = CASES[2]
    x, delta = case.normal(1, case.hidden), case.normal(2, case.hidden)
    weight = case.normal(3, case.hidden)[0, 0]
    halves = [jnp.asarray(part, jnp.bfloat16) for part in (x, delta, weight)]
    total, normed = add_rms_norm(*halves, 1e-5)
    gated = silu_product(*halves[:2])
    x, delta, weight = (np.asarray(part, np.float64) for part in halves)
    np.testing.assert_array_equal(total, jnp.asarray(x + delta, jnp.bfloat16))
    exact = np.asarray(total, np.float64)
    root = np.sqrt(np.mean(exact**2, axis=-1, keepdims=True) + 1e-5)
    # Eight bits of a number are left.
    for found, wanted in ((normed, exact / root * weight), (gated, x / (1 + np.exp(-x)) * delta)):
        np.testing.assert_allclose(np.asarray(found, np.float64), wanted, rtol=2**-8)


@pytest.mark.parametrize(("head_dim", "turned"), [(4, 6), (8, 3)])
def test_a_rotation_that_does_not_fit_a_head_is_refused(head_dim: int, turned: int) -> None:
    x, by = jnp.ones((1, 1, 1, head_dim)), jnp.ones((1, 1, 2, turned))
    with pytest.raises(ValueError, match=f"expected an even part of {head_dim}"):
        pallas.rotate(x, by, neighbours=True, interpret=True)


@pytest.mark.filterwarnings("ignore:The Pallas Triton backend:DeprecationWarning")
@_every
def test_a_gpu_is_given_the_kernels(case: Case) -> None:
    """Lowered as for an H200, which needs no GPU; Triton takes fewer operations than XLA."""
    device = AbstractDevice("NVIDIA H200", None, "cuda")

    def layer(x: jax.Array, gate: jax.Array, heads: jax.Array, by: jax.Array) -> list[jax.Array]:
        return [
            *pallas.add_rms_norm(x, x, x[0, 0], 1e-5),
            pallas.silu_product(gate, gate),
            pallas.rotate(heads, by, neighbours=case.neighbours),
        ]

    arguments = (
        case.normal(1, case.hidden),
        case.normal(2, case.inner),
        case.normal(3, case.heads, case.head_dim),
        case.normal(4, 2, case.turned),
    )
    with use_abstract_mesh(AbstractMesh((1,), ("devices",), abstract_device=device)):
        lowered = jax.jit(layer).trace(*arguments).lower(lowering_platforms=("cuda",))
    assert lowered.as_text().count("custom_call @__gpu$xla.gpu.triton(") == 3
