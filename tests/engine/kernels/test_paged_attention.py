"""Every implementation of paged attention against its definition."""

import jax.numpy as jnp
import numpy as np
import pytest

from pantheon.engine.kernels.paged_attention import paged_attention
from pantheon.engine.kernels.paged_attention.cases import CASES, Case
from pantheon.engine.kernels.paged_attention.reference import reference


def _softmax_attention(case: Case, arguments: tuple[np.ndarray, ...]) -> np.ndarray:
    """Textbook attention in float64 numpy, one query at a time (Vaswani et al., 2017)."""
    query, keys, values, tables, positions, lengths = arguments
    result = np.zeros(query.shape)
    for row, length in enumerate(lengths):
        pages = tables[row, : -(-length // case.page_size)]
        for time in range(case.time if length else 0):
            seen = min(positions[row, time] + 1, length)
            first = max(seen - case.window, 0) if case.window else 0
            for head in range(case.heads):
                kv_head = head // (case.heads // case.kv_heads)
                k, v = (
                    np.concatenate([held[page, kv_head] for page in pages])[first:seen].astype(
                        float
                    )
                    for held in (keys, values)
                )
                scores = k @ query[row, time, head].astype(float) * case.head_dim**-0.5
                weights = np.exp(scores - scores.max())
                result[row, time, head] = weights / weights.sum() @ v
    return result


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("implementation", [reference, paged_attention])
def test_equals_textbook_attention(case: Case, implementation: object) -> None:
    assert callable(implementation)
    arguments = case.arguments()
    scale, window = case.head_dim**-0.5, case.window
    found = implementation(*map(jnp.asarray, arguments), scale=scale, window=window)
    np.testing.assert_allclose(found, _softmax_attention(case, arguments), atol=2e-6)


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
    np.testing.assert_allclose(found, _softmax_attention(case, arguments), atol=2e-6)


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
