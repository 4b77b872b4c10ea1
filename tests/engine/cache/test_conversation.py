"""Which conversation a prompt goes on with (reference, session routes: several per id)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pantheon.engine.cache import Conversation, common_prefix
from pantheon.engine.cache.conversation import continued, shared_tokens


def _conversation(prompt: int, answer: int = 10, held: int | None = None) -> Conversation:
    tokens = tuple(range(prompt + answer))
    return Conversation(
        tokens, len(tokens) - 1 if held is None else held, prompt, (len(tokens),), ()
    )


@given(
    st.lists(st.integers(0, 1), max_size=2000),
    st.integers(0, 2000),
    st.lists(st.integers(0, 1), max_size=5),
)
def test_common_prefix_counts_equal_leading_tokens(
    left: list[int], cut: int, tail: list[int]
) -> None:
    right = left[:cut] + tail
    expected = 0
    while expected < min(len(left), len(right)) and left[expected] == right[expected]:
        expected += 1
    assert common_prefix(left, right) == expected == common_prefix(right, left)


@pytest.mark.parametrize("length", [511, 512, 513, 1024, 1500])
@pytest.mark.parametrize("changed", [0, 511, 512, 513, 1023])
def test_common_prefix_at_the_edges_of_what_is_compared_at_once(length: int, changed: int) -> None:
    left = [7] * length
    right = [*left, 9]
    if changed < length:
        right[changed] = 8
    assert common_prefix(left, right) == min(changed, length)


@pytest.mark.parametrize(
    ("prompt", "held", "shared", "goes_on"),
    [
        (100, None, 109, True),
        (100, None, 100, True),
        # The opening of the answer, a think block perhaps, is another one.
        (100, None, 84, True),
        (100, None, 83, False),
        # A short prompt has a beginning in common with many.
        (14, None, 3, False),
        (14, None, 7, True),
        (14, None, 6, False),
        (1, None, 0, False),
        # Of a turn that was broken off in its prompt, all that is held must be there.
        (100, 30, 30, True),
        (100, 30, 29, False),
    ],
)
def test_a_prompt_goes_on_with_a_turn_whose_prompt_it_has(
    prompt: int, held: int | None, shared: int, goes_on: bool
) -> None:
    assert _conversation(prompt, held=held).is_continued_at(shared) is goes_on


def test_of_several_conversations_the_one_that_shares_most_is_continued() -> None:
    short, long = _conversation(40), _conversation(100)
    tokens = tuple(range(120))
    shares = shared_tokens(tokens, [short, long])
    assert list(shares.values()) == [49, 109]
    assert continued(shares) is long
    assert continued(shared_tokens((5, *tokens), [short, long])) is None
    assert continued({}) is None
