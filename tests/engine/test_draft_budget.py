"""How many drafts a step is given: as many as bring more tokens in a second.

The rates expected here are computed by hand from the definition (Leviathan et al., 2023, section
3.3: expected tokens over the cost of the step).
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pantheon.engine.draft_budget import DraftBudget, Guess

_BATCHES = (1, 2, 4, 8)
_SURE, _LIKELY, _UNLIKELY = Guess(16, 1.0), Guess(16, 0.8), Guess(16, 0.3)


@pytest.mark.parametrize(
    ("seconds", "rows", "guesses", "drafts"),
    [
        # 1/1, 1.8/1.1, 2.952/1.2, 4.16/1.4: entries that cost little are all filled.
        ({1: 1.0, 2: 1.1, 4: 1.2, 8: 1.4}, 1, [_LIKELY], 7),
        # 1/1, 1.8/1.6, 2.952/3, 4.16/6: those that cost as much as a row are not.
        ({1: 1.0, 2: 1.6, 4: 3.0, 8: 6.0}, 1, [_LIKELY], 1),
        ({1: 1.0, 2: 1.6, 4: 3.0, 8: 6.0}, 1, [_UNLIKELY], 0),
        ({1: 1.0, 2: 1.6, 4: 3.0, 8: 6.0}, 1, [_SURE], 3),
        # Three rows stand in a batch of four: its last entry costs nothing.
        ({1: 1.0, 2: 1.6, 4: 3.0, 8: 6.0}, 3, [_UNLIKELY], 1),
        ({1: 1.0, 2: 1.6, 4: 3.0, 8: 6.0}, 4, [_UNLIKELY], 0),
        ({1: 1.0, 2: 1.6, 4: 3.0, 8: 6.0}, 1, [], 0),
        # Guesses of two tokens fill no more than two entries each.
        ({1: 1.0, 2: 1.1, 4: 1.2, 8: 1.4}, 1, [Guess(2, 0.8)], 3),
        # 2/1.6, 3.6/3, 2 + 2 * 1.952 over 6.
        ({1: 1.0, 2: 1.6, 4: 3.0, 8: 6.0}, 2, [_LIKELY, _LIKELY], 0),
    ],
)
def test_drafts_by_numbers(
    seconds: dict[int, float], rows: int, guesses: list[Guess], drafts: int
) -> None:
    assert DraftBudget(_BATCHES, seconds, always=False).drafts(rows, guesses) == drafts


def test_a_batch_that_was_never_measured_is_tried() -> None:
    seconds = {1: 1.0}
    budget = DraftBudget(_BATCHES, seconds, always=False)
    assert budget.drafts(1, [_LIKELY]) == 7
    seconds[8] = 6.0
    assert budget.drafts(1, [_LIKELY]) == 3
    seconds[4] = 3.0
    assert budget.drafts(1, [_LIKELY]) == 1
    seconds[2] = 1.9
    assert budget.drafts(1, [_LIKELY]) == 0


def test_where_all_steps_take_as_long_every_entry_is_filled() -> None:
    budget = DraftBudget((8,), {8: 0.1}, always=False)
    assert [budget.drafts(rows, [_UNLIKELY]) for rows in (1, 5, 8)] == [7, 3, 0]


def test_always_fills_the_largest_batch() -> None:
    budget = DraftBudget(_BATCHES, {1: 1.0, 8: 100.0}, always=True)
    assert budget.drafts(1, [_UNLIKELY]) == 7
    assert budget.drafts(1, []) == 0


@given(
    st.dictionaries(st.sampled_from(_BATCHES), st.floats(0.001, 10)),
    st.integers(0, 8),
    st.lists(st.builds(Guess, st.integers(1, 16), st.floats(0, 1)), max_size=8),
    st.booleans(),
)
def test_drafts_and_rows_always_fit_a_batch(
    seconds: dict[int, float], rows: int, guesses: list[Guess], always: bool
) -> None:
    drafts = DraftBudget(_BATCHES, seconds, always=always).drafts(rows, guesses[:rows])
    assert drafts >= 0 and rows + drafts <= 8
