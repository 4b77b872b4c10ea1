"""Waits of clients, from answers whose times are made up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.latency import PROMPT_TOKENS, Waits, new_prompts, percentile
from bench.prompts import Prompts
from bench.race_waits import wait_rows
from bench.streaming import Answer
from bench.workloads import WordLengths


def _answer(sent: float, *chunks: float) -> Answer:
    return Answer(sent, chunks, chunks[-1], 200, len(chunks), 0, None)


@given(st.lists(st.floats(0, 1e3), min_size=1, max_size=50), st.integers(1, 100))
def test_a_percentile_is_numpys_inverse_of_the_empirical_distribution(
    values: list[float], percent: int
) -> None:
    assert percentile(values, percent) == np.percentile(values, percent, method="inverted_cdf")


def test_of_no_values_there_is_no_percentile() -> None:
    with pytest.raises(ValueError, match="at least one"):
        percentile([], 50)


def test_waits_are_for_the_first_text_and_between_texts_of_one_answer() -> None:
    waits = Waits.of([_answer(1.0, 1.5, 2.0, 4.0), _answer(10.0, 13.0, 14.0)])
    assert waits.first == (0.5, 3.0)
    assert waits.gaps == (0.5, 2.0, 1.0)


def test_percentiles_are_of_all_rounds_and_the_spread_of_each() -> None:
    fast, slow = Waits((0.1,), (0.01, 0.02)), Waits((0.2,), (0.04, 0.08))
    first, longest, between = wait_rows(4, [(fast, slow), (slow, slow)])
    assert (first.name, first.unit) == ("first token, 4 clients, p50", "ms")
    assert (first.ours, first.theirs) == pytest.approx((100.0, 200.0))
    assert first.spread == pytest.approx((0.5, 1.0))
    assert longest.compared == pytest.approx(1.0)
    assert (between.ours, between.theirs) == pytest.approx((80.0, 80.0))
    assert between.details == {"values": 4}


def test_every_client_has_prompts_of_its_own_of_the_wanted_length() -> None:
    lengths = WordLengths(template=30.0, per_word=1.25)
    prompts = new_prompts(3, 2, lengths, Prompts(seed=5))
    assert [len(own) for own in prompts] == [2, 2, 2]
    assert len({prompt for own in prompts for prompt in own}) == 6
    words = len(prompts[0][0].split())
    assert 30 + 1.25 * words == pytest.approx(PROMPT_TOKENS, abs=1)
