"""Texts of numbers between bounds, held against the numbers themselves."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pantheon.engine.constraint.number_text import (
    MAX_BOUND,
    MAX_INTEGER,
    Bound,
    integer_text,
    number_texts,
)
from pantheon.engine.tools.json_reader import json_value

INTEGERS = st.one_of(
    st.integers(-1200, 1200),
    st.integers(-MAX_INTEGER, MAX_INTEGER),
    st.sampled_from([0, 9, 10, 99, 100, -1, -10, MAX_INTEGER, -MAX_INTEGER]),
)


@settings(max_examples=400, deadline=None)
@given(ends=st.tuples(INTEGERS, INTEGERS), near=st.integers(-3, 3), other=INTEGERS)
def test_integers_are_those_between_the_bounds(
    ends: tuple[int, int], near: int, other: int
) -> None:
    low, high = sorted(ends)
    text = re.compile(integer_text(low, high))
    for number in (low + near, high + near, (low + high) // 2 + near, other):
        assert (text.fullmatch(str(number)) is not None) == (low <= number <= high)
    for odd in ("", "-", "00", "01", "1.0", "1e2", "--1", "+1"):
        assert text.fullmatch(odd) is None


DECIMALS = st.one_of(
    st.decimals(-3, 3, places=2),
    st.decimals(-MAX_BOUND, MAX_BOUND, places=1),
    st.integers(-20, 20).map(Decimal),
    st.floats(-1e6, 1e6).map(lambda value: Decimal(repr(value))),
)
BOUNDS = st.none() | st.builds(Bound, DECIMALS, st.booleans())
FORMS = ["{:f}", "{:.3f}", "{:.1e}", "{:.3E}", "{:.2f}"]


def is_between(value: Decimal, low: Bound | None, high: Bound | None) -> bool:
    above = low is None or value > low.value or (value == low.value and not low.is_open)
    below = high is None or value < high.value or (value == high.value and not high.is_open)
    return above and below


@settings(max_examples=500, deadline=None)
@given(low=BOUNDS, high=BOUNDS, other=DECIMALS, nudge=st.decimals(-1, 1, places=2))
def test_numbers_are_those_between_the_bounds(
    low: Bound | None, high: Bound | None, other: Decimal, nudge: Decimal
) -> None:
    """What is written with few digits and no exponent is allowed; nothing outside ever is."""
    texts = [re.compile(text) for text in number_texts(low, high)]
    near = [bound.value + step for bound in (low, high) if bound for step in (0, nudge)]
    for number in (other, *near):
        for form in FORMS:
            written = form.format(number)
            allowed = all(text.fullmatch(written) for text in texts)
            inside = is_between(Decimal(written), low, high)
            assert not allowed or inside, written
            digits = written.partition(".")[2]
            if inside and "e" not in written.lower() and len(digits) <= 4:
                assert allowed, written


@pytest.mark.parametrize(
    ("low", "high", "allowed", "refused"),
    [
        (None, None, ["0", "-0", "1e5", "2.5E-10", "-1e+99"], ["1e100", "01", ".5", "5.", "+1"]),
        (Bound(Decimal(0)), None, ["0", "1e-5", "3.5e20", "-0"], ["-1", "-1e-5", "1e537"]),
        (Bound(Decimal(0), True), None, ["1e-6", "0.001"], ["0", "0.0", "0e5", "-1"]),
        (
            Bound(Decimal(0)),
            Bound(Decimal(1)),
            ["0", "1", "1.0", "0.25", "1e-3"],
            ["1.01", "1e1", "2"],
        ),
        (Bound(Decimal("0.5")), None, ["0.5", "0.51", "7"], ["0.49", "0", "-1"]),
    ],
)
def test_exponents(
    low: Bound | None, high: Bound | None, allowed: list[str], refused: list[str]
) -> None:
    """As people write small numbers, and never beyond a double."""
    texts = [re.compile(text) for text in number_texts(low, high)]
    for written in allowed:
        assert all(text.fullmatch(written) for text in texts), written
        assert json_value(written) == written
    for written in refused:
        assert not all(text.fullmatch(written) for text in texts), written


def test_digits_behind_the_point() -> None:
    """For multiples of a hundredth and the like."""
    texts = [re.compile(text) for text in number_texts(None, Bound(Decimal(2)), 2)]
    for written, allowed in [("1.25", True), ("1.255", False), ("1", True), ("1e1", False)]:
        assert all(text.fullmatch(written) for text in texts) == allowed
