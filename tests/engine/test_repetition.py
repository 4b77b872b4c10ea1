"""Loops and what only looks like one (reference, `finish_reason`: `repetition_loop`)."""

from __future__ import annotations

import base64
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pantheon.engine.repetition import RepetitionDetector
from tests.engine.tokenizer.vocabularies import golden_tokenizer


def first_loop(tokens: list[int]) -> int | None:
    """Tokens taken when a loop was noticed."""
    detector = RepetitionDetector()
    return next((n for n, token in enumerate(tokens, 1) if detector.push(token)), None)


@pytest.mark.parametrize("period", [1, 2, 3, 31, 32, 33, 63, 64])
def test_a_loop_is_noticed_at_eight_repeats_of_256_tokens(period: int) -> None:
    """A period of 1 to 64 tokens, at least 8 times, over at least 256 tokens."""
    lead = [1000 + n for n in range(17)]
    assert first_loop(lead + list(range(period)) * 300) == len(lead) + max(8 * period, 256)


@pytest.mark.parametrize("period", [65, 100])
def test_longer_periods_are_no_loops(period: int) -> None:
    assert first_loop(list(range(period)) * 100) is None


@pytest.mark.parametrize("period", [1, 40, 64])
def test_a_token_out_of_place_begins_anew(period: int) -> None:
    almost = (list(range(period)) * 300)[: max(8 * period, 256) - 1]
    assert first_loop([*almost, 999, *almost]) is None


def is_loop(tokens: list[int]) -> bool:
    """The definition, on the end of a sequence."""
    for period in range(1, 65):
        length = max(8 * period, 256)
        end = tokens[-length:]
        if len(end) == length and end[period:] == end[:-period]:
            return True
    return False


@settings(max_examples=40, deadline=None)
@given(
    lead=st.lists(st.integers(0, 2), max_size=20),
    loop=st.lists(st.integers(0, 2), min_size=1, max_size=70),
    length=st.integers(200, 600),
)
def test_the_first_token_that_makes_a_loop_is_the_one(
    lead: list[int], loop: list[int], length: int
) -> None:
    tokens = lead + (loop * 600)[:length]
    found = first_loop(tokens)
    expected = next((n for n in range(256, len(tokens) + 1) if is_loop(tokens[:n])), None)
    assert found == expected


def _table() -> str:
    rows = [f"| {n} | item {n % 7} | {n * 3.5:.2f} | yes | no |" for n in range(200)]
    return "\n".join(["| id | name | price | a | b |", "|---|---|---|---|---|", *rows])


def _log() -> str:
    return "\n".join(
        f"2026-01-02 03:{n // 60:02}:{n % 60:02} INFO worker[{n % 4}] GET /health 200 {n} ms"
        for n in range(200)
    )


def _base64() -> str:
    return base64.b64encode(random.Random(5).randbytes(6000)).decode()


def _matrix() -> str:
    rows = ([int(row == column) for column in range(40)] for row in range(40))
    return "\n".join(str(row) for row in rows)


@pytest.mark.parametrize("vocabulary", ["smollm", "qwen35", "llama-bpe"])
@pytest.mark.parametrize("make", [_table, _log, _base64, _matrix])
def test_regular_text_is_no_loop(vocabulary: str, make: object) -> None:
    """Tables, logs, base64 and an identity matrix, thousands of tokens long."""
    assert callable(make)
    tokens = golden_tokenizer(vocabulary).encode(make(), special=False)
    assert len(tokens) > 1500
    assert first_loop(tokens) is None


def test_a_repeated_line_is_a_loop() -> None:
    tokens = golden_tokenizer("smollm").encode(
        "I am sorry, I cannot do that.\n" * 100, special=False
    )
    assert first_loop(tokens) is not None
