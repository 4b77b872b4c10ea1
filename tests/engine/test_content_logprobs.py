"""Log-probabilities ride the text of their tokens (reference, `logprobs`, `top_logprobs`)."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pantheon.engine.answer import AnswerStep
from pantheon.engine.events import LOWEST_LOGPROB, TextDelta, TokenAlternative
from pantheon.engine.reasoning import ReasoningStart
from pantheon.engine.sampled_token import SampledToken
from pantheon.engine.tokenizer import ThinkStyle
from tests.engine.answers import (
    BY_TOKEN,
    CLOSE,
    CONTROL,
    END_TOKEN,
    IDS,
    OPEN,
    answer_of,
    ids_of,
    run,
)
from tests.engine.pieces import END, Pieces, pieces_tokenizer
from tests.engine.tokenizer.vocabularies import golden_tokenizer


def carried(steps: list[AnswerStep]) -> list[tuple[str, list[bytes]]]:
    """Text of each content delta with the bytes of the tokens it carries."""
    return [
        (delta.text, [entry.data for entry in delta.logprobs])
        for step in steps
        for delta in step.deltas
        if isinstance(delta, TextDelta)
    ]


def test_each_token_rides_with_its_text_and_the_end_token_has_none() -> None:
    steps = run(answer_of(top_logprobs=0), [*ids_of(b"ab"), END_TOKEN])
    assert carried(steps) == [("a", [b"a"]), ("b", [b"b"])]
    (first,) = [d for d in steps[1].deltas if isinstance(d, TextDelta)]
    assert first.logprobs[0].logprob == -1.0


def test_no_entries_without_logprobs() -> None:
    assert carried(run(answer_of(top_logprobs=None), ids_of(b"ab"))) == [("a", []), ("b", [])]


def test_tokens_of_one_character_ride_with_it() -> None:
    """An emoji over four tokens: their raw bytes, none of which is a whole character."""
    steps = run(answer_of(top_logprobs=0), ids_of("🦜x".encode()))
    assert carried(steps) == [("🦜", [b"\xf0", b"\x9f", b"\xa6", b"\x9c"]), ("x", [b"x"])]
    entries = [e for s in steps for d in s.deltas if isinstance(d, TextDelta) for e in d.logprobs]
    assert [entry.text for entry in entries[:4]] == ["\ufffd"] * 4


def test_a_character_cut_by_the_limit_keeps_its_bytes() -> None:
    steps = run(answer_of(top_logprobs=0, limit=3), ids_of("a🦜".encode()))
    assert carried(steps) == [("a", [b"a"]), ("\ufffd", [b"\xf0", b"\x9f"])]


def test_entries_of_held_back_text_come_with_it() -> None:
    steps = run(answer_of(top_logprobs=0, stops=("bcd",)), ids_of(b"abce"))
    assert carried(steps) == [("a", [b"a"]), ("bce", [b"b", b"c", b"e"])]


def test_tokens_cut_by_a_stop_are_dropped() -> None:
    steps = run(answer_of(top_logprobs=0, stops=("bcd",)), ids_of(b"abcd"))
    assert carried(steps) == [("a", [b"a"])]


def test_a_token_is_sent_if_some_of_its_characters_are() -> None:
    pieces = Pieces([b"abc", b"d"])
    answer = answer_of(
        pieces_tokenizer(pieces), top_logprobs=0, stops=("cd",), end_tokens=frozenset({END})
    )
    steps = run(answer, [pieces.id(b"abc"), pieces.id(b"d")])
    assert carried(steps) == [("ab", [b"abc"])]
    answer = answer_of(
        pieces_tokenizer(pieces), top_logprobs=0, stops=("abcd",), end_tokens=frozenset({END})
    )
    assert carried(run(answer, [pieces.id(b"abc"), pieces.id(b"d")])) == []


@pytest.mark.parametrize(
    ("tokens", "carries"),
    [
        ([CONTROL, *ids_of(b"a"), END_TOKEN], [("", [b""]), ("a", [b"a"])]),
        ([*ids_of(b"x"), CONTROL, *ids_of(b"ab")], [("x", [b"x"]), ("", [b""])]),
        ([*ids_of(b"xa"), CONTROL, *ids_of(b"b")], [("x", [b"x"])]),
        ([*ids_of(b"a"), CONTROL, *ids_of(b"c")], [("ac", [b"a", b"", b"c"])]),
    ],
)
def test_a_token_without_text_has_an_entry_if_it_is_before_the_stop(
    tokens: list[int], carries: list[tuple[str, list[bytes]]]
) -> None:
    assert carried(run(answer_of(top_logprobs=0, stops=("ab",)), tokens)) == carries


def test_a_broken_character_belongs_to_its_own_token() -> None:
    """The byte after it does not share it: a stop at that byte drops the byte's entry alone."""
    steps = run(answer_of(top_logprobs=0, stops=("A",)), ids_of(b"\xf0A"))
    assert carried(steps) == [("\ufffd", [b"\xf0"])]


def test_reasoning_and_tags_have_none() -> None:
    answer = answer_of(top_logprobs=0, reasoning=ReasoningStart(BY_TOKEN, open=True))
    tokens = [*ids_of(b"why"), CONTROL, CLOSE, *ids_of(b"\n\n"), CONTROL, *ids_of("é".encode())]
    assert carried(run(answer, tokens)) == [("é", [b"\xc3", b"\xa9"])]


def test_a_leading_block_takes_the_whitespace_before_it_along() -> None:
    answer = answer_of(top_logprobs=0, reasoning=ReasoningStart(BY_TOKEN, open=False))
    assert carried(run(answer, [*ids_of(b" "), OPEN, *ids_of(b"w"), CLOSE, *ids_of(b"4")])) == [
        ("4", [b"4"])
    ]
    answer = answer_of(top_logprobs=0, reasoning=ReasoningStart(BY_TOKEN, open=False))
    assert carried(run(answer, [*ids_of(b" "), CONTROL, *ids_of(b"4")])) == [
        (" 4", [b" ", b"", b"4"])
    ]


def test_a_tag_that_is_text_has_the_text_as_its_bytes() -> None:
    answer = answer_of(top_logprobs=0, reasoning=ReasoningStart(BY_TOKEN, open=False))
    steps = run(answer, [*ids_of(b"a"), CLOSE])
    assert carried(steps) == [("a", [b"a"]), ("</think>", [b"</think>"])]


@pytest.mark.parametrize(
    ("logprob", "written"),
    [
        (-math.inf, LOWEST_LOGPROB),
        (math.nan, LOWEST_LOGPROB),
        (None, LOWEST_LOGPROB),
        (-1e30, LOWEST_LOGPROB),
        (math.inf, 0.0),
        (1e-7, 0.0),
        (-0.25, -0.25),
    ],
)
def test_every_number_can_be_written_as_json(logprob: float | None, written: float) -> None:
    token = SampledToken(IDS[b"a"], logprob, ((IDS[b"b"], logprob or 0.0),))
    (delta,) = answer_of(top_logprobs=20).push(token).deltas
    assert isinstance(delta, TextDelta)
    (entry,) = delta.logprobs
    assert entry.logprob == written
    json.dumps([entry.logprob, entry.alternatives[0].logprob], allow_nan=False)


def test_alternatives_are_as_many_as_asked_for_and_written_out() -> None:
    """Best first as sampled; an end token has its text; the token itself is as in its entry."""
    alternatives = ((END_TOKEN, -0.5), (CONTROL, -1.0), (IDS[b"b"], -2.0))
    (delta,) = answer_of(top_logprobs=2).push(SampledToken(CONTROL, -1.0, alternatives)).deltas
    assert isinstance(delta, TextDelta)
    assert delta.logprobs[0].alternatives == (
        TokenAlternative("<end>", b"<end>", -0.5),
        TokenAlternative("", b"", -1.0),
    )


_FRAGMENTS = ["</think>", "</thi", "\n", "é", "🦜", "你好", "a", "bc", "STOP", "ST"]


@given(
    text=st.lists(st.sampled_from(_FRAGMENTS), max_size=10).map("".join),
    cuts=st.lists(st.integers(0, 60), max_size=20),
    opened=st.booleans(),
    stops=st.sampled_from([(), ("STOP",), ("你", "bca")]),
)
def test_entries_are_those_of_the_tokens_sent(
    text: str, cuts: list[int], opened: bool, stops: tuple[str, ...]
) -> None:
    """Whatever the cut: in order, each once, with the delta of its first sent character."""
    data = text.encode()
    borders = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
    tokens = [data[a:b] for a, b in pairwise(borders)]
    pieces = Pieces(tokens)
    reasoning = ReasoningStart(ThinkStyle(None, None), open=True) if opened else None
    answer = answer_of(
        pieces_tokenizer(pieces),
        stops,
        top_logprobs=0,
        reasoning=reasoning,
        end_tokens=frozenset({END}),
    )
    deltas = carried(run(answer, [*map(pieces.id, tokens), END]))

    content_at = 0
    if opened:
        _, tag, rest = text.partition("</think>")
        content_at = len(text) - len(rest.lstrip("\n")) if tag else len(text)
    sent_end = content_at + sum(len(part) for part, _ in deltas)
    spans = [
        (len(data[:a].decode("utf-8", "ignore")), len(data[: b - 1].decode("utf-8", "ignore")) + 1)
        for a, b in pairwise(borders)
    ]
    expected = [
        (max(start, content_at), token)
        for token, (start, end) in zip(tokens, spans, strict=True)
        if max(start, content_at) < sent_end and end > content_at
    ]
    position = content_at
    for part, entries in deltas:
        here = [token for at, token in expected if position <= at < position + len(part)]
        assert entries == here
        position += len(part)
    assert sum(len(entries) for _, entries in deltas) == len(expected)


def test_the_space_that_decoding_leaves_out_is_in_no_entry() -> None:
    """SentencePiece: the joined bytes of the entries are those of the content."""
    tokenizer = golden_tokenizer("llama-spm")
    ids = [tokenizer.vocabulary.tokens.index(piece) for piece in ("\u2581Hi", "\u2581you")]
    steps = run(answer_of(tokenizer, end_tokens=frozenset(), top_logprobs=0), ids)
    assert carried(steps) == [("Hi", [b"Hi"]), (" you", [b" you"])]
