"""Stop strings across token and chunk borders (reference, request body, `stop`)."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pantheon.engine.stop_strings import StopStrings


def _run(stops: tuple[str, ...], pieces: list[str]) -> tuple[list[str], bool]:
    watcher = StopStrings(stops)
    passed = [watcher.push(piece) for piece in pieces]
    return [*passed, watcher.flush()], watcher.found


def test_text_without_a_stop_passes_through_at_once() -> None:
    assert _run(("END",), ["a", "bc", "d"]) == (["a", "bc", "d", ""], False)


def test_a_stop_split_over_pieces_is_found_and_never_passed_on() -> None:
    assert _run(("END",), ["one E", "N", "D two"]) == (["one ", "", "", ""], True)


def test_only_a_beginning_of_a_stop_is_held_back() -> None:
    passed, found = _run(("as a user",), ["pleas", "e"])
    assert passed == ["ple", "ase", ""] and not found


def test_a_held_back_end_is_flushed() -> None:
    passed, found = _run(("as a user",), ["pleas"])
    assert passed == ["ple", "as"] and not found


def test_the_stop_that_is_complete_first_counts() -> None:
    assert _run(("late", "now"), ["x now late"])[0][0] == "x "
    assert _run(("abc", "b"), ["abc"])[0][0] == "a"


def test_nothing_follows_a_stop() -> None:
    assert _run(("x",), ["axb", "c"]) == (["a", "", ""], True)


def test_an_empty_stop_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        StopStrings(("",))


_texts = st.text(alphabet="ab", max_size=30)


@given(
    stops=st.lists(st.text(alphabet="ab", min_size=1, max_size=4), max_size=3),
    text=_texts,
    cuts=st.lists(st.integers(0, 30), max_size=8),
)
def test_any_cut_gives_the_same_text(stops: list[str], text: str, cuts: list[int]) -> None:
    """The answer ends before the stop that is complete first, the longest of those."""
    borders = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    pieces = [text[a:b] for a, b in pairwise(borders)]
    passed, found = _run(tuple(stops), pieces)
    joined = "".join(passed)
    ends = [
        (end, start)
        for end in range(len(text) + 1)
        for start in range(end)
        if text[start:end] in stops
    ]
    expected = text[: min(ends)[1]] if ends else text
    assert (joined, found) == (expected, bool(ends))
