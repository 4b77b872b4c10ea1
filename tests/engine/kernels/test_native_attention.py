"""The native paged attention on every instruction set that the processor has."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pantheon.engine.kernels.native import InstructionSet, native_library
from pantheon.engine.kernels.paged_attention.cases import CASES, Case
from pantheon.engine.kernels.paged_attention.native import native_attention
from tests.engine.kernels.textbook_attention import softmax_attention

_LIBRARY = native_library()
pytestmark = pytest.mark.skipif(
    _LIBRARY.missing is not None, reason=f"no native kernels: {_LIBRARY.missing}"
)
_SETS = [
    one
    for one in InstructionSet
    if _LIBRARY.missing is None and one is not InstructionSet.BEST and _LIBRARY.has(one)
]
_MORE = (
    Case("decode of long rows in parts", 1, 6, 2, 64, 64, (700, 0, 256, 257)),
    Case("decode in a window over parts", 1, 4, 2, 16, 8, (900, 300), window=400),
    Case("decode of many heads to a key head", 1, 20, 1, 32, 16, (70, 3)),
    Case("decode of a head of odd size", 1, 2, 1, 7, 8, (21,)),
    Case("decode of four heads to a key head in parts", 1, 8, 2, 40, 64, (300, 70, 0)),
    Case("two tokens of two heads to a key head in a window", 2, 4, 2, 20, 8, (33, 9), window=5),
    Case("prefill of a whole chunk in pages larger than one", 128, 6, 2, 32, 96, (300,)),
    Case("prefill of several rows", 19, 14, 2, 24, 16, (19, 40, 0)),
)


def _native(
    case: Case, arguments: tuple[np.ndarray, ...], instruction_set: InstructionSet
) -> np.ndarray:
    return np.asarray(
        native_attention(
            *map(jnp.asarray, arguments),
            scale=case.head_dim**-0.5,
            window=case.window,
            instruction_set=instruction_set,
        )
    )


@pytest.mark.parametrize("case", (*CASES, *_MORE), ids=lambda case: case.name)
@pytest.mark.parametrize("instruction_set", _SETS)
def test_equals_textbook_attention(case: Case, instruction_set: InstructionSet) -> None:
    arguments = case.arguments()
    found = _native(case, arguments, instruction_set)
    np.testing.assert_allclose(found, softmax_attention(case, arguments), atol=2e-6)
    for row, length in enumerate(case.lengths):
        if not length:
            np.testing.assert_array_equal(found[row], 0)


@pytest.mark.parametrize("case", (*CASES, *_MORE), ids=lambda case: case.name)
@pytest.mark.parametrize("instruction_set", _SETS)
def test_float16_pages_are_read_as_their_values(
    case: Case, instruction_set: InstructionSet
) -> None:
    query, keys, values, *rest = case.arguments()
    keys, values = keys.astype(np.float16), values.astype(np.float16)
    found = _native(case, (query, keys, values, *rest), instruction_set)
    rounded = (query, keys.astype(np.float32), values.astype(np.float32), *rest)
    np.testing.assert_array_equal(found, _native(case, rounded, instruction_set))


@pytest.mark.parametrize("instruction_set", _SETS)
@pytest.mark.parametrize("poison", [np.nan, np.inf])
@pytest.mark.parametrize("case", (*CASES, *_MORE), ids=lambda case: case.name)
def test_what_others_left_in_the_last_page_changes_nothing(
    case: Case, poison: float, instruction_set: InstructionSet
) -> None:
    """Pages are reused as they are; a restored session may have put anything into them."""
    arguments = case.arguments()
    expected = _native(case, arguments, instruction_set)
    _, keys, values, tables, _, lengths = arguments
    for row, length in enumerate(lengths):
        used = length % case.page_size
        if used:
            page = tables[row, length // case.page_size]
            keys[page, :, used:] = values[page, :, used:] = poison
    np.testing.assert_array_equal(_native(case, arguments, instruction_set), expected)


@pytest.mark.parametrize("instruction_set", _SETS)
@pytest.mark.parametrize("case", (*CASES, *_MORE), ids=lambda case: case.name)
def test_tokens_that_are_not_live_are_zeros_and_change_no_other(
    case: Case, instruction_set: InstructionSet
) -> None:
    arguments = case.arguments()
    whole = _native(case, arguments, instruction_set)
    tokens = whole.shape[0] * whole.shape[1]
    expected = whole.reshape(tokens, -1)
    for first, end in ((0, tokens), (0, tokens // 3), (tokens // 4, tokens), (tokens // 2,) * 2):
        found = np.asarray(
            native_attention(
                *map(jnp.asarray, arguments),
                jnp.array([first, end], jnp.int32),
                scale=case.head_dim**-0.5,
                window=case.window,
                instruction_set=instruction_set,
            )
        ).reshape(tokens, -1)
        np.testing.assert_array_equal(found[first:end], expected[first:end])
        np.testing.assert_array_equal(found[:first], 0)
        np.testing.assert_array_equal(found[end:], 0)


def _case(
    time: int, group: int, kv_heads: int, dims: int, page_size: int, held: list[int], window: int
) -> Case:
    lengths = tuple(max(length, time) if length else 0 for length in held)
    return Case("drawn", time, kv_heads * group, kv_heads, dims, page_size, lengths, window)


_DRAWN = st.tuples(
    st.sampled_from([1, 1, 2, 7, 33]),
    st.integers(1, 9),
    st.integers(1, 3),
    st.integers(1, 10).flatmap(lambda count: st.sampled_from([count, 8 * count])),
    st.sampled_from([1, 8, 16, 64, 100]),
    st.lists(st.integers(0, 600), min_size=1, max_size=4),
    st.sampled_from([0, 0, 1, 50, 300]),
)


@settings(max_examples=30, deadline=None)
@given(drawn=_DRAWN, seed=st.integers(0, 99))
@pytest.mark.parametrize("instruction_set", _SETS)
def test_any_shape_equals_textbook_attention(
    instruction_set: InstructionSet,
    drawn: tuple[int, int, int, int, int, list[int], int],
    seed: int,
) -> None:
    case = _case(*drawn)
    arguments = case.arguments(seed)
    found = _native(case, arguments, instruction_set)
    np.testing.assert_allclose(found, softmax_attention(case, arguments), atol=5e-6)


@pytest.mark.parametrize("instruction_set", _SETS)
def test_the_exponential_is_right_to_the_last_digits(instruction_set: InstructionSet) -> None:
    """Two keys of scores 0 and x: their weights are as 1 to exp(x), in float64 by numpy."""
    scores = np.concatenate([-np.geomspace(1e-6, 87, 3000), [0.0]]).astype(np.float32)
    count = len(scores)
    query = np.ones((count, 1, 1, 1), np.float32)
    keys = np.zeros((count, 1, 2, 1), np.float32)
    keys[:, 0, 1, 0] = scores
    values = np.zeros_like(keys)
    arguments = (
        np.arange(count, dtype=np.int32)[:, None],
        np.ones((count, 1), np.int32),
        np.full(count, 2, np.int32),
    )

    def weight(of: int) -> np.ndarray:
        values[:] = 0
        values[:, 0, of, 0] = 1
        found = native_attention(
            *map(jnp.asarray, (query, keys, values, *arguments)),
            scale=1.0,
            instruction_set=instruction_set,
        )
        return np.asarray(found).reshape(-1).astype(np.float64)

    found = weight(1) / weight(0)
    np.testing.assert_allclose(found, np.exp(scores.astype(np.float64)), rtol=4e-7)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("part", ["keys", "values", "query"])
@pytest.mark.parametrize("instruction_set", _SETS)
def test_what_is_no_number_stays_visible(
    instruction_set: InstructionSet, part: str, bad: float
) -> None:
    """The finite check of a step looks for it: it must not turn into a number on the way."""
    case = _MORE[0]
    query, keys, values, tables, *rest = case.arguments()
    page = tables[0, 3]
    query, keys, values = np.abs(query), np.abs(keys), np.abs(values)
    held = {"query": query[0, 0, 0], "keys": keys[page, 0, 5], "values": values[page, 0, 5]}[part]
    held[3] = bad
    found = _native(case, (query, keys, values, tables, *rest), instruction_set)
    if (part, bad) == ("keys", -np.inf):
        # A score of minus infinity has no weight; as in the definition.
        assert np.isfinite(found).all()
    else:
        assert not np.isfinite(found[0]).all()
    assert np.isfinite(found[1:]).all()


@pytest.fixture
def own_threads() -> Iterator[None]:
    yield
    _LIBRARY.set_threads(0)


@pytest.mark.usefixtures("own_threads")
@pytest.mark.parametrize(
    "case", [_MORE[0], _MORE[4], _MORE[6], CASES[5]], ids=lambda case: case.name
)
def test_results_do_not_depend_on_rows_or_threads(case: Case) -> None:
    arguments = case.arguments()
    query, keys, values, tables, positions, lengths = arguments
    expected = _native(case, arguments, InstructionSet.BEST)
    for threads in (1, 2, 3, 7):
        _LIBRARY.set_threads(threads)
        found = _native(case, arguments, InstructionSet.BEST)
        np.testing.assert_array_equal(found, expected)
    for row in range(len(lengths)):
        one = slice(row, row + 1)
        own = (query[one], keys, values, tables[one], positions[one], lengths[one])
        np.testing.assert_array_equal(_native(case, own, InstructionSet.BEST)[0], expected[row])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tables, lengths: tables.__setitem__((0, 1), 1000), "expected a page below"),
        (lambda tables, lengths: tables.__setitem__((0, 1), -1), "expected a page below"),
        (lambda tables, lengths: lengths.__setitem__(0, 10**6), "expected at most"),
    ],
)
def test_a_table_that_leads_nowhere_fails_the_step(change: object, message: str) -> None:
    assert callable(change)
    case = CASES[2]
    arguments = case.arguments()
    change(arguments[3], arguments[5])
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        _native(case, arguments, InstructionSet.BEST)
