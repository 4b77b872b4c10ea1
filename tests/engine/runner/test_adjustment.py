"""Bias, penalties and masks on logits (reference, request body)."""

import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.runner.adjustment import adjust, batch_adjustments, bias_vector, mask_words

_VOCABULARY = 70


@settings(max_examples=50, deadline=None)
@given(st.floats(-2, 2), st.floats(-2, 2), st.sets(st.integers(0, _VOCABULARY - 1)))
def test_equals_the_formula_of_the_api(
    presence: float, frequency: float, allowed: set[int]
) -> None:
    """logit + bias - presence * (count > 0) - frequency * count, -inf where not allowed."""
    random = np.random.default_rng(1)
    logits = random.normal(size=(1, _VOCABULARY)).astype(np.float32)
    counts = random.integers(0, 4, (1, _VOCABULARY)).astype(np.int32)
    bias = random.normal(size=(1, _VOCABULARY)).astype(np.float32)
    mask = np.zeros(mask_words(_VOCABULARY), np.uint32)
    for token in allowed:
        mask[token // 32] |= np.uint32(1 << (token % 32))
    row = RowSampling(1, 1, 0, 0, presence_penalty=presence, frequency_penalty=frequency)
    batch = batch_adjustments([row], [mask], 1, _VOCABULARY)
    found = np.asarray(adjust(jnp.asarray(logits), jnp.asarray(counts), jnp.asarray(bias), batch))
    for token in range(_VOCABULARY):
        count = int(counts[0, token])
        expected = logits[0, token] + bias[0, token] - presence * (count > 0) - frequency * count
        if token in allowed:
            np.testing.assert_allclose(found[0, token], expected, rtol=1e-5, atol=1e-5)
        else:
            assert found[0, token] == -np.inf


def test_without_a_mask_everything_is_allowed_and_padding_rows_too() -> None:
    batch = batch_adjustments([RowSampling(1, 1, 0, 0)], [None], 2, _VOCABULARY)
    zeros = jnp.zeros((2, _VOCABULARY))
    found = adjust(zeros, zeros.astype(jnp.int32), zeros, batch)
    np.testing.assert_array_equal(found, 0)


def test_a_mask_shorter_than_the_vocabulary_refuses_the_rest() -> None:
    """The last rows of an embedding can be padding, which no tokenizer knows."""
    mask = np.full(1, 0xFFFFFFFF, np.uint32)
    batch = batch_adjustments([RowSampling(1, 1, 0, 0)], [mask], 1, _VOCABULARY)
    zeros = jnp.zeros((1, _VOCABULARY))
    found = np.asarray(adjust(zeros, zeros.astype(jnp.int32), zeros, batch))
    assert np.flatnonzero(found[0] == 0).tolist() == list(range(32))


def test_bias_ids_outside_the_vocabulary_are_left_out() -> None:
    """JAX would clamp or wrap such an index without a word."""
    vector = bias_vector([(3, 1.5), (-1, 9.0), (_VOCABULARY, 9.0), (2**40, 9.0)], _VOCABULARY)
    assert {index: float(vector[index]) for index in np.flatnonzero(vector)} == {3: 1.5}
