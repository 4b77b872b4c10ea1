"""Rows, pages and window from what is asked for and what there is (reference, context_window)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pantheon.engine.capacity import PAGE_SIZE, NotEnoughMemory, plan_capacity, plan_states
from pantheon.engine.runner import Capacity


def test_with_memory_enough_every_row_has_a_whole_window() -> None:
    capacity = plan_capacity(
        context_length=8192, ctx_cap=0, rows=8, sessions=0, bytes_per_token=1, memory=2**40
    )
    assert (capacity.window, capacity.rows) == (8192, 8)
    assert capacity.pages * capacity.page_size == 8 * 8192


def test_the_operators_cap_lowers_the_window_and_never_raises_it() -> None:
    windows = [
        plan_capacity(
            context_length=8192, ctx_cap=cap, rows=1, sessions=0, bytes_per_token=1, memory=2**40
        ).window
        for cap in (100, 10**9)
    ]
    assert windows == [100, 8192]


def test_rows_beyond_what_a_step_takes_are_not_claimed() -> None:
    """`max_concurrent` is what is decoded at once, not what was asked for."""
    capacity = plan_capacity(
        context_length=128, ctx_cap=0, rows=100, sessions=0, bytes_per_token=1, memory=2**40
    )
    assert capacity.rows == 8


def test_every_row_that_is_claimed_holds_a_whole_window() -> None:
    """Reference, `max_concurrent`: a cap the serve cannot honour is worse than none."""
    token = 1000
    capacity = plan_capacity(
        context_length=4096,
        ctx_cap=0,
        rows=8,
        sessions=0,
        bytes_per_token=token,
        memory=3 * 4096 * token,
    )
    assert (capacity.rows, capacity.window) == (3, 4096)
    assert capacity.pages * capacity.page_size == 3 * 4096


def test_the_window_shrinks_only_when_not_even_one_fits() -> None:
    token = 1000
    capacity = plan_capacity(
        context_length=4096,
        ctx_cap=0,
        rows=8,
        sessions=0,
        bytes_per_token=token,
        memory=1024 * token,
    )
    assert (capacity.rows, capacity.window) == (1, 1024)


def test_less_than_a_page_is_refused() -> None:
    with pytest.raises(NotEnoughMemory, match="at least"):
        plan_capacity(
            context_length=4096,
            ctx_cap=0,
            rows=8,
            sessions=0,
            bytes_per_token=1,
            memory=PAGE_SIZE - 1,
        )


@given(st.integers(1, 10**9), st.integers(0, 16))
def test_a_pool_that_memory_limits_has_one_of_few_sizes(affordable: int, sessions: int) -> None:
    """Compiled steps are used again where free memory is not what it was at the last start."""
    pages = plan_capacity(
        context_length=2**40,
        ctx_cap=0,
        rows=8,
        sessions=sessions,
        bytes_per_token=1,
        memory=affordable * PAGE_SIZE,
    ).pages
    assert affordable * 15 / 16 < pages <= affordable
    assert len(f"{pages:b}".rstrip("0")) <= 5, "five binary digits, the rest zeros"


def test_free_memory_that_differs_a_little_gives_the_same_pool() -> None:
    def plan(memory: int) -> Capacity:
        return plan_capacity(
            context_length=8192,
            ctx_cap=0,
            rows=8,
            sessions=8,
            bytes_per_token=40_000,
            memory=memory,
        )

    plans = {plan(memory) for memory in range(2_000_000_000, 2_030_000_000, 1_000_000)}
    assert len(plans) == 1


def test_a_pool_that_the_configuration_limits_is_not_rounded() -> None:
    capacity = plan_capacity(
        context_length=64 * 101, ctx_cap=0, rows=1, sessions=0, bytes_per_token=1, memory=103 * 64
    )
    assert (capacity.pages, capacity.window) == (101, 64 * 101)


def test_rounding_takes_no_row_away() -> None:
    """Reference, `max_concurrent`: the rows that fit are served."""
    window = 65 * PAGE_SIZE
    capacity = plan_capacity(
        context_length=window, ctx_cap=0, rows=8, sessions=8, bytes_per_token=1, memory=3 * window
    )
    assert (capacity.rows, capacity.pages, capacity.window) == (3, 3 * 65, window)


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.integers(1, 64), st.integers(0, 10**9))
def test_capacity_never_exceeds_memory_and_always_holds_a_window(
    context: int, cap: int, rows: int, memory: int
) -> None:
    try:
        capacity = plan_capacity(
            context_length=context,
            ctx_cap=cap,
            rows=rows,
            sessions=0,
            bytes_per_token=7,
            memory=memory,
        )
    except NotEnoughMemory:
        return
    assert capacity.pages * capacity.page_size * 7 <= memory
    assert 1 <= capacity.rows <= min(rows, 8)
    assert capacity.window >= 1
    assert capacity.rows * -(-capacity.window // PAGE_SIZE) <= capacity.pages
    assert capacity.table_width * capacity.page_size >= capacity.window


def test_states_of_every_row_and_some_for_each_session() -> None:
    plan = plan_states(rows=8, sessions=8, state_bytes=1000, memory=2**30)
    assert (plan.rows, plan.checkpoints) == (8, 64)
    assert plan.bytes == (8 + 1 + 64) * 1000, "and the one of padding"


def test_short_memory_takes_checkpoints_before_rows() -> None:
    """Reference, `max_concurrent`: fewer checkpoints cost time, fewer rows are less than asked."""
    plan = plan_states(rows=8, sessions=8, state_bytes=1000, memory=2 * 20 * 1000)
    assert (plan.rows, plan.checkpoints) == (8, 11)
    plan = plan_states(rows=8, sessions=8, state_bytes=1000, memory=2 * 8 * 1000)
    assert (plan.rows, plan.checkpoints) == (4, 3)


@given(st.integers(1, 100), st.integers(0, 16), st.integers(1, 10**9), st.integers(0, 10**11))
def test_states_take_half_of_the_memory_at_most(
    rows: int, sessions: int, state_bytes: int, memory: int
) -> None:
    try:
        plan = plan_states(rows=rows, sessions=sessions, state_bytes=state_bytes, memory=memory)
    except NotEnoughMemory as error:
        assert "states" in str(error)
        assert (1 + 1 + 3 * bool(sessions)) * state_bytes > memory // 2
        return
    assert plan.bytes == (plan.rows + 1 + plan.checkpoints) * state_bytes <= memory // 2
    assert 1 <= plan.rows <= min(rows, 8)
    assert bool(plan.checkpoints) == bool(sessions), "a turn resumes from a checkpoint alone"


def test_a_model_that_only_attends_has_no_states() -> None:
    plan = plan_states(rows=4, sessions=8, state_bytes=0, memory=0)
    assert (plan.rows, plan.checkpoints, plan.bytes) == (4, 0, 0)


def test_sessions_beyond_the_rows_have_a_window_each_where_memory_allows() -> None:
    """Reference, `max_sessions`: how many conversations may hold KV at once."""

    def pages(memory: int) -> int:
        return plan_capacity(
            context_length=128, ctx_cap=0, rows=1, sessions=8, bytes_per_token=1, memory=memory
        ).pages

    assert pages(2**20) == 8 * 128 // PAGE_SIZE
    assert pages(5 * PAGE_SIZE) == 5, "as much as there is"
