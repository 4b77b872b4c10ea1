"""Rates of answers whose times are made up, so that the right rate is known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import BenchError
from bench.rates import AnswerTooShort, decode_rate, prefill_rate, same_work
from bench.streaming import Answer


def _answer(
    *chunks: float,
    sent: float = 0.0,
    prompt: int = 512,
    completion: int | None = None,
    cached: int = 0,
    computed: int | None = None,
) -> Answer:
    return Answer(
        sent=sent,
        chunks=chunks,
        finished=chunks[-1] if chunks else sent + 1.0,
        prompt_tokens=prompt,
        completion_tokens=len(chunks) if completion is None else completion,
        cached_tokens=cached,
        computed_tokens=computed,
    )


def _every(seconds: float, count: int, start: float = 1.0) -> Answer:
    return _answer(*(start + seconds * step for step in range(count)))


def test_prefill_is_prompt_tokens_by_time_to_first_token() -> None:
    assert prefill_rate(_answer(12.0, sent=10.0)) == 256.0


def test_decode_of_one_row_leaves_the_first_token_out() -> None:
    assert decode_rate([_every(0.25, 9, start=30.0)], 8) == pytest.approx(4.0)


def test_rows_that_decode_in_step_add_up() -> None:
    assert decode_rate([_every(0.5, 11)] * 4, 8) == pytest.approx(8.0)


def test_only_the_stretch_in_which_every_row_decodes_counts() -> None:
    """The first row is fast while alone and slow beside the second."""
    alone = [0.01 * step for step in range(50)]
    beside = [1.0 + step for step in range(11)]
    rows = [_answer(*alone, *beside), _answer(*(1.0 + step for step in range(11)))]
    assert decode_rate(rows, 8) == pytest.approx(2.0)


def test_a_chunk_of_two_tokens_counts_twice() -> None:
    rows = [_answer(*(float(step) for step in range(11)), completion=22)]
    assert decode_rate(rows, 8) == pytest.approx(2.0)


@given(
    st.lists(st.integers(30, 80), min_size=1, max_size=8),
    st.floats(0.001, 1.0),
    st.floats(0.0, 0.99),
)
def test_rows_of_one_speed_give_that_speed_whatever_their_lengths_and_phases(
    counts: list[int], seconds: float, phase: float
) -> None:
    rows = [
        _every(seconds, count, start=1.0 + seconds * phase * number / len(counts))
        for number, count in enumerate(counts)
    ]
    assert decode_rate(rows, 16) == pytest.approx(len(rows) / seconds, rel=1e-6)


@pytest.mark.parametrize(
    "rows",
    [
        [_every(0.5, 40), _every(0.5, 5)],
        [_every(0.5, 20), _every(0.5, 20, start=50.0)],
        [_every(0.5, 40), _answer()],
        [_every(0.0, 40)],
    ],
    ids=["one ends early", "never side by side", "no text", "all at once"],
)
def test_rows_that_are_not_side_by_side_for_long_give_no_rate(rows: list[Answer]) -> None:
    with pytest.raises(AnswerTooShort):
        decode_rate(rows, 16)


def test_equal_prompts_computed_in_full_are_the_same_work() -> None:
    same_work([_answer(1.0)], [_answer(1.0, computed=512)])


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (_answer(1.0, prompt=511), _answer(1.0)),
        (_answer(1.0, cached=64), _answer(1.0)),
        (_answer(1.0), _answer(1.0, cached=64)),
        (_answer(1.0), _answer(1.0, computed=448)),
    ],
    ids=["counts differ", "ours cached", "theirs cached", "theirs computed less"],
)
def test_other_prompts_or_cached_tokens_are_not_the_same_work(ours: Answer, theirs: Answer) -> None:
    with pytest.raises(BenchError, match="tokens"):
        same_work([ours], [theirs])
