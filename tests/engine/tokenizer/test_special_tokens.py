"""Finding whole special tokens, against a simple search."""

import re
import time

from hypothesis import given, settings
from hypothesis import strategies as st

from pantheon.engine.tokenizer.special_tokens import SpecialTexts

TEXTS = st.lists(st.text("<|ab>.*", min_size=1, max_size=5), max_size=8)


def alternation(texts: list[str]) -> re.Pattern[str]:
    """Longest first, so that the first alternative that matches is the longest."""
    longest_first = sorted(set(texts), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or "(?!)")


@settings(deadline=None)
@given(texts=TEXTS, text=st.text("<|ab>.* ", max_size=40))
def test_longest_match_at_each_position(texts: list[str], text: str) -> None:
    pieces = list(SpecialTexts(texts).split(text))
    assert "".join(piece for piece, _ in pieces) == text
    assert all(piece for piece, _ in pieces)
    found = [piece for piece, matched in pieces if matched]
    assert found == alternation(texts).findall(text)


@settings(deadline=None)
@given(texts=TEXTS, text=st.text("<|ab>.* ", max_size=40))
def test_every_start_is_found(texts: list[str], text: str) -> None:
    expected = [i for i in range(len(text)) if any(text.startswith(t, i) for t in texts)]
    assert SpecialTexts(texts).starts(text) == expected


def test_thousands_of_tokens_with_one_beginning_stay_linear() -> None:
    """As in vocabularies that reserve ids: every position of the text starts like all of them."""
    texts = SpecialTexts(f"<SPECIAL_{index}>" for index in range(5000))
    start = time.process_time()
    assert len(list(texts.split("<SPECIAL_<SPECIAL_77>" * 50_000))) == 100_000
    assert time.process_time() - start < 5
