"""Regular expressions for the texts of numbers between bounds.

Digits and exponents are limited: a model could write digits for ever, and readers refuse what no
double holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

MAX_INTEGER: Final = 9 * 10**18
"""The integers up to it, and down to its negative, are what one without bounds may be."""
MAX_BOUND: Final = 10**15
"""Largest bound of a number that is enforced."""
_MAX_WHOLE: Final = 10**19 - 1
_FRACTION_DIGITS: Final = 20
"""More than a double needs in its shortest spelling."""
_EXPONENT: Final = "(?:[eE][+-]?[0-9]{1,2})?"
_SMALL: Final = rf"[1-9](?:\.[0-9]{{1,{_FRACTION_DIGITS}}})?[eE]-0?[1-9][0-9]?"
"""Numbers between 0 and 1, both excluded."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A limit of numbers.

    Attributes:
        value: the limit.
        is_open: whether the limit itself is outside.
    """

    value: Decimal
    is_open: bool = False


def integer_text(low: int, high: int) -> str:
    """Any integer from `low` to `high`; there is one."""
    parts = []
    if low < 0:
        parts.append(f"-{_whole(0 if high >= 0 else -high, -low)}")
    if high >= 0:
        parts.append(_whole(max(low, 0), high))
    return _either(parts)


def number_texts(low: Bound | None, high: Bound | None, digits: int | None = None) -> list[str]:
    """Any number between two bounds: one that matches each of the expressions.

    Args:
        low: lower bound, at most `MAX_BOUND` from 0.
        high: upper bound, likewise.
        digits: most digits behind the point, without exponents.
    """
    texts = []
    if low is not None:
        texts.append(_at_least(low, "", "-"))
    if high is not None:
        # What is at most a number is at least its negative once the sign is turned.
        texts.append(_at_least(Bound(-high.value, high.is_open), "-", ""))
    if digits is not None:
        fraction = rf"(?:\.[0-9]{{1,{digits}}})?" if digits else ""
        texts.append(f"-?{_whole(0, _MAX_WHOLE)}{fraction}")
    return texts or [f"-?{_whole(0, _MAX_WHOLE)}{_fraction()}{_EXPONENT}"]


def _at_least(bound: Bound, plus: str, minus: str) -> str:
    """Numbers from a bound on, of which those above 0 begin with `plus`, others with `minus`."""
    value = bound.value
    if value > 0:
        return plus + _magnitude_from(bound)
    if value == 0 and bound.is_open:
        return f"{plus}{_magnitude_from(bound)}{_EXPONENT}"
    below = [f"{minus}{_magnitude_to(Bound(-value, bound.is_open))}"]
    if value <= -1:
        below.append(minus + _SMALL)
    return _either([f"{plus}{_whole(0, _MAX_WHOLE)}{_fraction()}{_EXPONENT}", *below])


def _magnitude_from(bound: Bound) -> str:
    whole, digits = _parts(bound.value)
    parts = [f"{whole}{_fraction_from(digits, is_open=bound.is_open)}"]
    parts.append(_whole(whole + 1, _MAX_WHOLE) + _fraction())
    return _either(parts)


def _magnitude_to(bound: Bound) -> str:
    whole, digits = _parts(bound.value)
    parts = [_whole(0, whole - 1) + _fraction()] if whole else []
    if digits or not bound.is_open:
        parts.append(f"{whole}{_fraction_to(digits, is_open=bound.is_open)}")
    return _either(parts)


def _parts(value: Decimal) -> tuple[int, str]:
    """The whole part of a number and its digits behind the point, without zeros at their end."""
    whole, _, digits = f"{value:f}".partition(".")
    return int(whole), digits.rstrip("0")


def _fraction(digits: int = _FRACTION_DIGITS) -> str:
    return rf"(?:\.[0-9]{{1,{digits}}})?"


def _room(digits: str) -> int:
    """How many digits may follow those of a bound."""
    return max(_FRACTION_DIGITS - len(digits), 1)


def _fraction_from(digits: str, *, is_open: bool) -> str:
    """Fractions from one on: those with a larger digit somewhere, or more digits."""
    if not digits and not is_open:
        return _fraction()
    zeros = _room(digits) - 1
    parts = [f"[0-9]{{0,{zeros}}}[1-9][0-9]{{0,{zeros}}}" if is_open else f"[0-9]{{0,{zeros}}}"]
    for digit in reversed(digits):
        larger = [f"[{int(digit) + 1}-9][0-9]{{0,{_FRACTION_DIGITS}}}"] if digit != "9" else []
        parts = [digit + _either(parts), *larger]
    return rf"\.{_either(parts)}"


def _fraction_to(digits: str, *, is_open: bool) -> str:
    """Fractions up to one: those with a smaller digit somewhere, or fewer digits."""
    text = "" if is_open else f"0{{0,{_room(digits)}}}"
    rest = [text] if text else []
    for digit in reversed(digits):
        smaller = f"[0-{int(digit) - 1}][0-9]{{0,{_FRACTION_DIGITS}}}" if digit != "0" else ""
        # The digits so far are a smaller fraction by themselves, but for the last.
        follows = f"(?:{'|'.join(rest)})?" if rest else ""
        same = digit + follows if rest else ""
        rest = [part for part in (same, smaller) if part]
    if not digits:
        return rf"(?:\.0{{1,{_FRACTION_DIGITS}}})?"
    return rf"(?:\.{_either(rest)})?" if rest else ""


def _whole(low: int, high: int) -> str:
    """Any integer from `low` to `high`, neither negative."""
    parts: list[str] = []
    shortest, longest = len(str(low)), len(str(high))
    # Of all lengths between them any digits will do.
    full = range(shortest + (low > _first(shortest)), longest + (high == 10**longest - 1))
    for length in dict.fromkeys((shortest, longest)):
        if length not in full:
            first, last = max(low, _first(length)), min(high, 10**length - 1)
            parts.append(_between(str(first), str(last)))
    if full:
        fewest, most = max(full.start, 2) - 1, full.stop - 2
        parts += ["[0-9]"] if full.start == 1 else []
        parts += [f"[1-9][0-9]{{{fewest},{most}}}"] if fewest <= most else []
    return _either(parts)


def _first(length: int) -> int:
    """The smallest number of so many digits."""
    return 10 ** (length - 1) if length > 1 else 0


def _between(first: str, last: str) -> str:
    """Any digits between two of the same length."""
    if not first or (set(first) == {"0"} and set(last) == {"9"}):
        return _digits(len(first))
    if first[0] == last[0]:
        return first[0] + _between(first[1:], last[1:])
    low, high, parts = int(first[0]), int(last[0]), []
    if set(first[1:]) - {"0"}:
        parts.append(first[0] + _between(first[1:], "9" * (len(first) - 1)))
        low += 1
    if set(last[1:]) - {"9"}:
        parts.append(last[0] + _between("0" * (len(last) - 1), last[1:]))
        high -= 1
    if low <= high:
        parts.append(f"[{low}-{high}]{_digits(len(first) - 1)}")
    return _either(parts)


def _digits(count: int) -> str:
    return f"[0-9]{{{count}}}" if count else ""


def _either(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"(?:{'|'.join(parts)})"
