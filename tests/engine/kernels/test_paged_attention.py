"""Every implementation of paged attention against its definition."""

import jax.numpy as jnp
import numpy as np
import pytest

from pantheon.engine.kernels.paged_attention import paged_attention
from pantheon.engine.kernels.paged_attention.cases import CASES, Case
from pantheon.engine.kernels.paged_attention.reference import reference
from tests.engine.kernels.textbook_attention import softmax_attention


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("implementation", [reference, paged_attention])
def test_equals_textbook_attention(case: Case, implementation: object) -> None:
    assert callable(implementation)
    arguments = case.arguments()
    scale, window = case.head_dim**-0.5, case.window
    found = implementation(*map(jnp.asarray, arguments), scale=scale, window=window)
    np.testing.assert_allclose(found, softmax_attention(case, arguments), atol=2e-6)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("poison", [np.nan, np.inf])
@pytest.mark.parametrize("implementation", [reference, paged_attention])
def test_what_others_left_in_the_last_page_changes_nothing(
    case: Case, poison: float, implementation: object
) -> None:
    """Pages are reused as they are; a restored session may have put anything into them."""
    assert callable(implementation)
    arguments = case.arguments()
    _, keys, values, tables, _, lengths = arguments
    for row, length in enumerate(lengths):
        used = length % case.page_size
        if used:
            page = tables[row, length // case.page_size]
            keys[page, :, used:] = values[page, :, used:] = poison
    scale, window = case.head_dim**-0.5, case.window
    found = implementation(*map(jnp.asarray, arguments), scale=scale, window=window)
    np.testing.assert_allclose(found, softmax_attention(case, arguments), atol=2e-6)


def test_a_row_is_bitwise_the_same_alone_and_in_company() -> None:
    case = CASES[1]
    arguments = [jnp.asarray(argument) for argument in case.arguments()]
    query, keys, values, tables, positions, lengths = arguments
    together = paged_attention(*arguments, scale=0.125)
    for row in range(len(case.lengths)):
        rows = slice(row, row + 1)
        alone = paged_attention(
            query[rows], keys, values, tables[rows], positions[rows], lengths[rows], scale=0.125
        )
        np.testing.assert_array_equal(alone[0], together[row])


def test_a_padding_row_yields_zeros() -> None:
    case = CASES[1]
    found = paged_attention(*map(jnp.asarray, case.arguments()), scale=0.125)
    np.testing.assert_array_equal(found[case.lengths.index(0)], 0)
