"""From tokens to deltas and finish reasons (reference, `finish_reason`, `stop`, `max_tokens`)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pantheon.engine.reasoning import ReasoningStart
from pantheon.engine.sampled_token import SampledToken
from tests.engine.answers import (
    BY_TOKEN,
    CONTROL,
    END_TOKEN,
    answer_of,
    ids_of,
    joined,
    run,
    text_step,
)


def test_an_end_token_stops_without_text() -> None:
    answer = answer_of()
    assert run(answer, [*ids_of(b"ab"), END_TOKEN]) == [
        text_step("a"),
        text_step("b"),
        text_step("", "stop"),
    ]
    assert answer.tokens == 3, "the end token was sampled and counts"


def test_the_limit_gives_length() -> None:
    assert run(answer_of(limit=2), ids_of(b"abc")) == [text_step("a"), text_step("b", "length")]


def test_a_stop_string_ends_the_answer_before_it() -> None:
    assert run(answer_of(stops=("bc",)), ids_of(b"abcd")) == [
        text_step("a"),
        text_step(""),
        text_step("", "stop"),
    ]


def test_a_stop_string_completed_by_the_last_token_is_stop_not_length() -> None:
    assert joined(run(answer_of(stops=("bc",), limit=3), ids_of(b"abc"))) == ("", "a", "stop")


def test_what_decoder_and_stops_hold_back_is_flushed_at_the_limit() -> None:
    steps = run(answer_of(stops=("b\ufffdc",), limit=2), ids_of(b"b\xf0"))
    assert steps == [text_step(""), text_step("b\ufffd", "length")]


def test_what_is_held_back_is_flushed_at_an_end_token() -> None:
    """A held-back tail is neither lost nor does it delay anything else."""
    steps = run(answer_of(stops=("as a user",)), [*ids_of(b"pleas"), END_TOKEN])
    assert [joined([step])[1] for step in steps] == ["p", "l", "e", "", "", "as"]


def test_a_stop_string_may_be_completed_by_the_flush_of_the_decoder() -> None:
    steps = run(answer_of(stops=("b\ufffd",)), [*ids_of(b"ab\xf0"), END_TOKEN])
    assert joined(steps) == ("", "a", "stop")


def test_a_character_cut_by_the_limit_is_one_replacement() -> None:
    """The limit in the middle of an emoji: valid text, nothing is dropped silently."""
    assert joined(run(answer_of(limit=3), ids_of("🦜".encode()))) == ("", "\ufffd", "length")


def test_an_answer_ends_from_outside_with_what_was_held_back() -> None:
    answer = answer_of(stops=("}x",))
    run(answer, ids_of(b"{}"))
    assert answer.end("stop") == text_step("}", "stop")


def test_an_unnamed_control_token_is_left_out_of_the_text() -> None:
    assert joined(run(answer_of(), [*ids_of(b"a"), CONTROL, *ids_of(b"b")]))[1] == "ab"


def test_between_characters_follows_the_decoder() -> None:
    answer = answer_of()
    seen = []
    for token in ids_of("aé".encode()):
        answer.push(SampledToken(token))
        seen.append(answer.between_characters)
    assert seen == [True, False, True]


def test_a_loop_ends_the_answer_with_all_of_its_text() -> None:
    """`repetition_loop`: 256 tokens of one period at least."""
    steps = run(answer_of(stop_repetition=True), ids_of(b"ab" * 200))
    assert joined(steps) == ("", "ab" * 128, "repetition_loop")
    assert len(run(answer_of(), ids_of(b"ab" * 200))) == 400, "a setting turns it off"


def test_a_loop_of_reasoning_counts_and_outranks_the_limit() -> None:
    reasoning = ReasoningStart(BY_TOKEN, open=True)
    answer = answer_of(stop_repetition=True, reasoning=reasoning, limit=256)
    assert joined(run(answer, ids_of(b"ab" * 200))) == ("ab" * 128, "", "repetition_loop")


@given(text=st.text(max_size=20), extra=st.binary(max_size=6))
def test_any_bytes_join_to_their_text(text: str, extra: bytes) -> None:
    data = text.encode("utf-8", "replace") + extra
    steps = run(answer_of(), [*ids_of(data), END_TOKEN])
    assert joined(steps)[1] == data.decode("utf-8", "replace")
