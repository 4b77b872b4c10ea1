"""Attempts that are spaced out and end (reference, `graphs`: "retried on a bounded backoff")."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pantheon.engine.residency import Backoff


class _Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_an_attempt_is_due_later_after_each_failure() -> None:
    clock = _Clock()
    backoff = Backoff(clock)
    waited = []
    while not backoff.gave_up:
        assert backoff.due
        backoff.failed()
        began = clock.now
        while not backoff.due and not backoff.gave_up:
            clock.now += 0.5
        waited.append(clock.now - began)
    assert waited == [1.0, 4.0, 16.0, 64.0, 0.0]
    clock.now += 1e9
    assert not backoff.due


def test_a_success_begins_anew() -> None:
    clock = _Clock()
    backoff = Backoff(clock, attempts=2)
    backoff.failed()
    backoff.succeeded()
    assert backoff.due
    backoff.failed()
    assert not backoff.gave_up


def test_what_fails_for_good_is_not_tried_again() -> None:
    backoff = Backoff(_Clock())
    backoff.failed(for_good=True)
    assert backoff.gave_up


@given(st.integers(1, 9), st.lists(st.floats(0, 1e4), max_size=60))
def test_there_are_never_more_attempts_in_a_row_than_allowed(
    attempts: int, steps: list[float]
) -> None:
    clock = _Clock()
    backoff = Backoff(clock, attempts)
    made = 0
    for step in steps:
        clock.now += step
        if backoff.due:
            made += 1
            backoff.failed()
    assert made <= attempts
    assert backoff.gave_up == (made == attempts)


def test_no_attempt_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one attempt, got 0"):
        Backoff(_Clock(), attempts=0)
