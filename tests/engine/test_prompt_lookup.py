"""N-gram lookup against its definition, spelled out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pantheon.engine.prompt_lookup import PromptLookup

_TOKENS = st.lists(st.integers(0, 3), min_size=1, max_size=60)


def _expected(tokens: list[int], most: int, least_match: int) -> tuple[int, ...]:
    """What followed the latest of the longest earlier matches of the end, over and over."""
    best, following = 0, 0
    for end in range(1, len(tokens)):
        matched = 0
        while matched < min(end, 32) and tokens[end - 1 - matched] == tokens[-1 - matched]:
            matched += 1
        if matched >= max(best, 1):
            best, following = matched, end
    if best < least_match:
        return ()
    copied = list(tokens)
    for index in range(most):
        copied.append(copied[following + index])
    return tuple(copied[len(tokens) :])


@given(_TOKENS, _TOKENS, st.integers(0, 9), st.integers(1, 6))
def test_the_guess_is_what_followed_the_longest_match(
    prompt: list[int], answer: list[int], most: int, least_match: int
) -> None:
    lookup = PromptLookup(prompt)
    assert lookup.guess(most, least_match=least_match) == _expected(prompt, most, least_match)
    for count, token in enumerate(answer, start=1):
        lookup.push(token)
        seen = prompt + answer[:count]
        assert lookup.guess(most, least_match=least_match) == _expected(seen, most, least_match)


def test_a_long_conversation_grows() -> None:
    lookup = PromptLookup(range(1500))
    for token in range(1500, 5000):
        lookup.push(token)
    for token in (3998, 3999, 4000):
        lookup.push(token)
    assert lookup.guess(4, least_match=3) == (4001, 4002, 4003, 4004)
    assert lookup.guess(4, least_match=4) == ()
