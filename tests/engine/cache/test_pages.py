"""The page pool: every page has exactly one owner."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pantheon.engine.cache import PagePool


def test_pages_for_rounds_up() -> None:
    pool = PagePool(total=4, page_size=16)
    assert [pool.pages_for(tokens) for tokens in (1, 16, 17, 64)] == [1, 1, 2, 4]


def test_allocation_is_all_or_nothing() -> None:
    pool = PagePool(total=3, page_size=16)
    assert pool.allocate(4) is None
    assert pool.free == 3


def test_a_page_cannot_be_released_twice() -> None:
    pool = PagePool(total=2, page_size=16)
    pages = pool.allocate(1)
    assert pages is not None
    pool.release(pages)
    with pytest.raises(ValueError, match="nobody holds it"):
        pool.release(pages)


@given(st.lists(st.integers(0, 9), max_size=40))
def test_no_page_is_lost_or_lent_twice(actions: list[int]) -> None:
    """0 releases the oldest loan, n allocates n pages."""
    pool = PagePool(total=12, page_size=4)
    loans: list[tuple[int, ...]] = []
    for action in actions:
        if action == 0 and loans:
            pool.release(loans.pop(0))
        elif action:
            free = pool.free
            pages = pool.allocate(action)
            assert (pages is None) == (action > free)
            if pages is not None:
                loans.append(pages)
        pool.check()
        lent = [page for loan in loans for page in loan]
        assert len(set(lent)) == len(lent) == pool.total - pool.free
