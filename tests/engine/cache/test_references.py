"""The pools of pages and slots: every number has exactly the holders that it counts."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pantheon.engine.cache import PagePool, ReferencePool


def test_pages_for_rounds_up() -> None:
    pool = PagePool(total=4, page_size=16)
    assert [pool.pages_for(tokens) for tokens in (0, 1, 16, 17, 64)] == [0, 1, 1, 2, 4]


@pytest.mark.parametrize(("total", "page_size"), [(0, 16), (4, 0)])
def test_a_pool_of_nothing_is_refused(total: int, page_size: int) -> None:
    with pytest.raises(ValueError, match="at least one page"):
        PagePool(total, page_size)


def test_allocation_is_all_or_nothing() -> None:
    pool = ReferencePool(3)
    assert pool.allocate(4) is None
    assert pool.free == 3
    assert pool.allocate(3) == (0, 1, 2)


def test_a_number_cannot_be_released_twice() -> None:
    pool = ReferencePool(2)
    numbers = pool.allocate(1)
    assert numbers is not None
    pool.release(numbers)
    with pytest.raises(ValueError, match="nobody holds it"):
        pool.release(numbers)


def test_what_nobody_holds_cannot_be_shared() -> None:
    with pytest.raises(ValueError, match="nobody holds it"):
        ReferencePool(2).share([1])


def test_a_shared_number_is_free_when_its_last_holder_lets_go() -> None:
    """Scenario 157: an aborted turn never frees what it shares."""
    pool = ReferencePool(1)
    held = pool.allocate(1)
    assert held is not None
    pool.share(held)
    pool.release(held)
    assert pool.allocate(1) is None
    pool.release(held)
    assert pool.allocate(1) == held


def test_check_finds_a_holder_too_many_and_one_too_few() -> None:
    pool = ReferencePool(2)
    pool.allocate(1)
    for held in ([], [0, 0], [1]):
        with pytest.raises(AssertionError):
            pool.check(held)
    pool.check([0])


@given(st.lists(st.tuples(st.sampled_from("asr"), st.integers(0, 9)), max_size=60))
def test_no_number_is_lost_or_lent_twice(actions: list[tuple[str, int]]) -> None:
    """a allocates, s shares a loan, r releases one."""
    pool = ReferencePool(12)
    loans: list[tuple[int, ...]] = []
    for action, number in actions:
        if action == "a":
            free = pool.free
            taken = pool.allocate(number)
            assert (taken is None) == (number > free)
            if taken is not None:
                assert not {*taken} & {held for loan in loans for held in loan}
                loans.append(taken)
        elif loans and action == "s":
            loan = loans[number % len(loans)]
            pool.share(loan)
            loans.append(loan)
        elif loans:
            pool.release(loans.pop(number % len(loans)))
        held = Counter(number for loan in loans for number in loan)
        pool.check(held.elements())
        assert pool.free == 12 - len(held)
