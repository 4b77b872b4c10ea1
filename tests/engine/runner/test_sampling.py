"""Choosing tokens (reference, request body: temperature, top_p, top_k, seed)."""

from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.runner.sampling import CANDIDATES, batch_rows, gumbel, sample

_sample = jax.jit(sample)
_VOCABULARY = 300


def _logits(rows: int = 1, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(0, 2, (rows, _VOCABULARY)).astype(np.float32)


def _draw(
    logits: NDArray[np.float32], rows: list[RowSampling], positions: list[int] | None = None
) -> list[int]:
    positions = positions or [7] * len(rows)
    batch = batch_rows(rows, positions, len(logits), logits.shape[1])
    return [int(token) for token in _sample(jnp.asarray(logits), batch)]


def _expected_survivors(logits: NDArray[np.float32], row: RowSampling) -> set[int]:
    """The tokens that temperature, then top-k, then top-p leave, in float64 numpy."""
    scaled = logits.astype(np.float64) / row.temperature
    order = np.argsort(-scaled)
    if 0 < row.top_k < len(order):
        order = order[: row.top_k]
    probabilities = np.exp(scaled[order] - scaled[order[0]])
    probabilities /= probabilities.sum()
    before = np.cumsum(probabilities) - probabilities
    return {int(token) for token in order[before < row.top_p]} | {int(order[0])}


@pytest.mark.parametrize(
    "row",
    [
        RowSampling(0.0, 0.95, 40, 1),
        RowSampling(-1.0, 0.95, 40, 1),
        RowSampling(5.0, 0.95, 1, 1),
        RowSampling(5.0, 0.0, 40, 1),
        RowSampling(5.0, -0.1, 0, 1),
    ],
    ids=["temperature 0", "temperature below 0", "top_k 1", "top_p 0", "top_p below 0"],
)
def test_what_keeps_only_the_best_token_is_greedy(row: RowSampling) -> None:
    """Reference: temperature <= 0 is greedy argmax."""
    logits = _logits(rows=20)
    assert _draw(logits, [row] * 20) == logits.argmax(axis=1).tolist()


def test_a_near_zero_temperature_is_greedy_and_finite() -> None:
    logits = _logits(rows=20) * 1000
    rows = [RowSampling(1e-30, 0.95, 40, seed) for seed in range(20)]
    assert _draw(logits, rows) == logits.argmax(axis=1).tolist()


@pytest.mark.parametrize("top_k", [0, -1, 5, CANDIDATES, CANDIDATES + 50, _VOCABULARY, 10**9])
@pytest.mark.parametrize("top_p", [0.3, 0.9, 1.0, 1.5])
def test_only_survivors_of_the_filters_are_drawn_and_all_can_be(top_k: int, top_p: float) -> None:
    """Narrow and wide filters alike; a top_k <= 0 or >= the vocabulary and top_p >= 1 are off."""
    logits = _logits()[0] * 2
    row = RowSampling(0.8, top_p, top_k, 0)
    expected = _expected_survivors(logits, row)
    drawn: Counter[int] = Counter()
    for start in range(0, 2000, 500):
        rows = [RowSampling(0.8, top_p, top_k, seed) for seed in range(start, start + 500)]
        drawn.update(_draw(np.broadcast_to(logits, (500, _VOCABULARY)), rows))
    assert set(drawn) <= expected
    probabilities = np.exp(logits.astype(np.float64) / 0.8)
    total = sum(probabilities[token] for token in expected)
    for token in expected:
        share = probabilities[token] / total
        deviation = (share * (1 - share) / 2000) ** 0.5
        assert abs(drawn[token] / 2000 - share) < 5 * deviation + 1e-3


def test_the_same_seed_draws_the_same_and_others_differ() -> None:
    """Reference, `seed`: makes sampling reproducible."""
    logits = np.broadcast_to(_logits()[0], (64, _VOCABULARY))
    same = _draw(logits, [RowSampling(1.0, 1.0, 0, 42)] * 64)
    assert len(set(same)) == 1
    assert len(set(_draw(logits, [RowSampling(1.0, 1.0, 0, seed) for seed in range(64)]))) > 10


def test_noise_is_finite_for_every_word_and_gumbel_distributed() -> None:
    """Mean and variance of the standard Gumbel distribution: 0.5772 and pi**2 / 6."""
    assert np.isfinite(gumbel(jnp.array([[0, 1, 2**31, 2**32 - 1]], jnp.uint32))).all()
    words = np.random.default_rng(0).integers(0, 2**32, (1, 10**6), dtype=np.uint32)
    noise = np.asarray(gumbel(jnp.asarray(words)), np.float64)
    assert abs(noise.mean() - 0.5772) < 0.005
    assert abs(noise.var() - np.pi**2 / 6) < 0.01


def test_noise_changes_with_the_position() -> None:
    logits = np.broadcast_to(_logits()[0], (64, _VOCABULARY))
    drawn = _draw(logits, [RowSampling(1.0, 1.0, 0, 42)] * 64, list(range(64)))
    assert len(set(drawn)) > 10


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.builds(
            RowSampling,
            temperature=st.floats(-1, 3),
            top_p=st.floats(-0.5, 1.5),
            top_k=st.sampled_from([-1, 0, 1, 2, 40, CANDIDATES, CANDIDATES + 1, 10**6]),
            seed=st.integers(0, 2**80),
        ),
        min_size=4,
        max_size=4,
    )
)
def test_a_row_draws_the_same_alone_and_in_company(rows: list[RowSampling]) -> None:
    """A neighbour that needs the search of the whole row changes nothing for the others."""
    logits = _logits(rows=4, seed=3)
    together = _draw(logits, rows)
    alone = [_draw(logits[index : index + 1], [row])[0] for index, row in enumerate(rows)]
    assert together == alone


def test_masked_tokens_are_never_drawn() -> None:
    """Rows of the embedding that are no token have a logit of -inf."""
    logits = np.full((200, _VOCABULARY), -np.inf, np.float32)
    logits[:, 17] = -50.0
    rows = [RowSampling(100.0, 1.0, top_k, seed) for seed in range(100) for top_k in (0, 40)]
    assert set(_draw(logits, rows)) == {17}


@pytest.mark.parametrize("temperature", [1e-300, 1e300])
def test_extreme_temperatures_stay_finite_on_the_device(temperature: float) -> None:
    batch = batch_rows([RowSampling(temperature, 1.0, 0, 0)], [0], 1, _VOCABULARY)
    assert np.isfinite(batch.temperature).all()
    assert 0 <= _draw(_logits(), [RowSampling(temperature, 1.0, 0, 0)])[0] < _VOCABULARY
