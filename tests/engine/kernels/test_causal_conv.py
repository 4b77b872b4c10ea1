"""The causal convolution, whose last inputs are part of what a sequence leaves."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax._src.mesh import AbstractDevice
from jax.sharding import AbstractMesh, use_abstract_mesh

from pantheon.engine.kernels.causal_conv import causal_conv
from pantheon.engine.kernels.causal_conv.cases import CASES, Case
from pantheon.engine.kernels.causal_conv.fused import ConvTiles, fused_conv
from pantheon.engine.kernels.implementation import Implementation

_TAPS, _CHANNELS, _TIME = 4, 6, 16


def _inputs(seed: int, time: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((time, _CHANNELS), np.float32)


_KERNEL = _inputs(1, _TAPS).T
_Implementation = Callable[..., tuple[jax.Array, jax.Array]]
_conv = jax.jit(causal_conv)
# Interpreted, a kernel is a large program that runs for a moment.
_fused = jax.jit(
    partial(fused_conv, tiles=ConvTiles(time=2, channels=16), interpret=True),
    compiler_options={"xla_backend_optimization_level": 0},
)
_every = pytest.mark.parametrize("conv", [_conv, _fused], ids=["api", "fused"])


def _convolved(inputs: np.ndarray) -> np.ndarray:
    """numpy's convolution of each channel, from a past of zeros."""
    return np.stack(
        [
            np.convolve(channel, kernel[::-1])[: len(channel)]
            for channel, kernel in zip(inputs.T, _KERNEL, strict=True)
        ],
        axis=1,
    )


@_every
@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 1000),
    st.lists(st.tuples(st.integers(0, _TIME), st.integers(0, _TIME)), min_size=1, max_size=6),
)
def test_steps_with_padding_anywhere_equal_one_convolution(
    conv: _Implementation, seed: int, spans: list[tuple[int, int]]
) -> None:
    """Each step has its valid tokens in one span, padding before and after, or none at all."""
    steps = [(min(span), max(span)) for span in spans]
    inputs = _inputs(seed, sum(end - first for first, end in steps))
    expected = _convolved(inputs) if len(inputs) else inputs
    held, found, used = jnp.zeros((1, _TAPS - 1, _CHANNELS)), [np.zeros((0, _CHANNELS))], 0
    for first, end in steps:
        x = np.full((1, _TIME, _CHANNELS), 1e30, np.float32)
        x[0, first:end] = inputs[used : used + end - first]
        used += end - first
        place = np.arange(_TIME)
        valid = ((first <= place) & (place < end))[None]
        before = held
        mixed, held = conv(jnp.asarray(x), jnp.asarray(_KERNEL), held, jnp.asarray(valid))
        if first == end:
            np.testing.assert_array_equal(held, before)
        found.append(np.asarray(mixed)[0, first:end])
    np.testing.assert_allclose(np.concatenate(found), expected, atol=1e-5)
    past = np.concatenate([np.zeros((_TAPS - 1, _CHANNELS), np.float32), inputs])
    np.testing.assert_array_equal(held[0], past[len(past) - _TAPS + 1 :])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_fused_equals_numpy_and_reads_no_padding(case: Case) -> None:
    """Padding is no number, and what comes out for it is one."""
    x, kernel, before, valid = case.arguments()
    mixed, following = _fused(*map(jnp.asarray, (x, kernel, before, valid)))
    for row, (first, end) in enumerate(case.spans):
        past = np.concatenate([before[row], x[row, first:end]]).astype(np.float64)
        expected = sum(past[tap : tap + end - first] * kernel[:, tap] for tap in range(case.taps))
        np.testing.assert_allclose(mixed[row, first:end], expected, rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(following[row], past[len(past) - case.taps + 1 :])
    assert np.isfinite(np.asarray(mixed)).all()


def test_fused_rows_are_bitwise_the_same_alone_and_in_company() -> None:
    case = Case("three rows", 20, 24, 4, ((0, 20), (3, 18), (0, 5)))
    arguments = [jnp.asarray(part) for part in case.arguments()]
    x, kernel, before, valid = arguments
    together = _fused(*arguments)
    alone = _fused(x[1:2], kernel, before[1:2], valid[1:2])
    for one, all_of_them in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one[0], all_of_them[1])


@pytest.mark.filterwarnings("ignore:The Pallas Triton backend:DeprecationWarning")
@pytest.mark.parametrize("case", CASES[:2], ids=lambda case: case.name)
def test_a_gpu_is_given_the_kernel(case: Case) -> None:
    """Lowered as for an H200, which needs no GPU; Triton takes fewer operations than XLA."""
    device = AbstractDevice("NVIDIA H200", None, "cuda")
    conv = jax.jit(partial(causal_conv, implementation=Implementation.GPU))
    with use_abstract_mesh(AbstractMesh((1,), ("devices",), abstract_device=device)):
        lowered = conv.trace(*case.arguments()).lower(lowering_platforms=("cuda",))
    assert lowered.as_text().count("custom_call @__gpu$xla.gpu.triton(") == 1
