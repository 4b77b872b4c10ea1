"""Sorting of choices by expert, and tiles of one expert each."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pantheon.engine.kernels.expert_matmul import by_expert, most_tiles, reference, tiles_of

_CHOICES = st.sampled_from([(1, 1), (2, 3), (9, 5)]).flatmap(
    # Few shapes, since each is compiled.
    lambda shape: st.lists(
        st.lists(st.integers(0, 6), min_size=shape[1], max_size=shape[1]),
        min_size=shape[0],
        max_size=shape[0],
    )
)
_EXPERTS = 6
"""Of which 6 is none."""


@settings(max_examples=30, deadline=None)
@given(choices=_CHOICES)
def test_pairs_stand_by_expert_and_in_the_order_of_tokens(choices: list[list[int]]) -> None:
    flat = np.array(choices).reshape(-1)
    pairs = by_expert(jnp.array(choices), _EXPERTS)
    np.testing.assert_array_equal(pairs.order, sorted(range(len(flat)), key=lambda at: flat[at]))
    for expert in range(_EXPERTS):
        start, count = int(pairs.starts[expert]), int(pairs.counts[expert])
        assert all(flat[at] == expert for at in pairs.order[start : start + count])
        assert count == np.sum(flat == expert)


@settings(max_examples=30, deadline=None)
@given(choices=_CHOICES, size=st.sampled_from([1, 2, 4]))
def test_tiles_are_of_one_expert_and_have_every_place_once(
    choices: list[list[int]], size: int
) -> None:
    flat = np.array(choices).reshape(-1)
    pairs = by_expert(jnp.array(choices), _EXPERTS)
    tiles = tiles_of(pairs, size)
    assert tiles.filled.shape == (most_tiles(len(flat), _EXPERTS, size),)
    places: list[int] = []
    for expert, first, count in zip(*map(np.asarray, tiles), strict=True):
        assert 0 <= count <= size
        tile = list(range(first, first + count))
        assert all(flat[pairs.order[place]] == expert for place in tile)
        places += tile
    assert sorted(places) == list(range(int(np.sum(flat < _EXPERTS))))


def test_the_reference_takes_each_place_to_its_expert() -> None:
    """By numpy, one place after another; nothing for a choice that is none."""
    random = np.random.default_rng(0)
    x, stack = random.standard_normal((3, 5)), random.standard_normal((4, 2, 5))
    choices = np.array([[3, 1], [1, 4], [0, 3]])
    pairs = by_expert(jnp.asarray(choices), 4)
    sources = pairs.order // 2
    found = jax.jit(reference)(jnp.asarray(x), jnp.asarray(stack), pairs, sources)
    for place, pair in enumerate(np.asarray(pairs.order)):
        expert = choices.reshape(-1)[pair]
        expected = stack[expert] @ x[pair // 2] if expert < 4 else np.zeros(2)
        np.testing.assert_allclose(found[place], expected, rtol=1e-5, atol=1e-6)
