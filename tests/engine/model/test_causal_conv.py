"""The causal convolution, whose last inputs are part of what a sequence leaves."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pantheon.engine.model.causal_conv import causal_conv

_TAPS, _CHANNELS, _TIME = 4, 6, 16


def _inputs(seed: int, time: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((time, _CHANNELS), np.float32)


_KERNEL = _inputs(1, _TAPS).T
_conv = jax.jit(causal_conv)


def _convolved(inputs: np.ndarray) -> np.ndarray:
    """numpy's convolution of each channel, from a past of zeros."""
    return np.stack(
        [
            np.convolve(channel, kernel[::-1])[: len(channel)]
            for channel, kernel in zip(inputs.T, _KERNEL, strict=True)
        ],
        axis=1,
    )


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 1000),
    st.lists(st.tuples(st.integers(0, _TIME), st.integers(0, _TIME)), min_size=1, max_size=6),
)
def test_steps_with_padding_anywhere_equal_one_convolution(
    seed: int, spans: list[tuple[int, int]]
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
        mixed, held = _conv(jnp.asarray(x), jnp.asarray(_KERNEL), held, jnp.asarray(valid))
        if first == end:
            np.testing.assert_array_equal(held, before)
        found.append(np.asarray(mixed)[0, first:end])
    np.testing.assert_allclose(np.concatenate(found), expected, atol=1e-5)
    past = np.concatenate([np.zeros((_TAPS - 1, _CHANNELS), np.float32), inputs])
    np.testing.assert_array_equal(held[0], past[len(past) - _TAPS + 1 :])
