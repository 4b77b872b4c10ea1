"""Keywords of JSON Schema that restrict numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from pantheon.engine.constraint.number_text import MAX_BOUND, MAX_INTEGER, Bound

_MAX_DIVISOR: Final = 1000


def bounds_of(
    schemas: Sequence[Mapping[str, Any]], types: frozenset[str], lost: set[str]
) -> tuple[Bound | None, Bound | None]:
    """Bounds of numbers that all schemas speak of."""
    limit = MAX_BOUND if "number" in types else MAX_INTEGER
    found: dict[bool, list[Bound]] = {True: [], False: []}
    for schema in schemas:
        for keyword in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"):
            if keyword not in schema:
                continue
            value: Any = schema[keyword]
            if is_number(value) and abs(value) <= limit:
                bound = Bound(Decimal(str(value)), keyword.startswith("exclusive"))
                found[keyword.lower().endswith("minimum")].append(bound)
            else:
                lost.add(keyword)
    low = max(found[True], key=lambda bound: (bound.value, bound.is_open), default=None)
    high = min(found[False], key=lambda bound: (bound.value, not bound.is_open), default=None)
    return low, high


def steps_of(schemas: Sequence[Mapping[str, Any]], lost: set[str]) -> tuple[int, int | None]:
    """What integers are multiples of, and how many digits stand behind the point of numbers."""
    divisor, digits = 1, None
    for schema in schemas:
        if "multipleOf" not in schema:
            continue
        value = schema["multipleOf"]
        step = Decimal(str(value)) if is_number(value) else Decimal(0)
        common = math.lcm(divisor, int(step))
        if step > 0 and step == int(step) and common <= _MAX_DIVISOR:
            divisor, digits = common, 0
        elif 0 < step < 1 and step.normalize().as_tuple().digits == (1,):
            places = -step.adjusted()
            digits = places if digits is None else min(digits, places)
        else:
            lost.add("multipleOf")
    return divisor, digits


def integers_between(low: Bound | None, high: Bound | None, divisor: int) -> tuple[int, int] | None:
    """The smallest and the largest multiple of `divisor` within bounds, or None."""
    least, most = -MAX_INTEGER, MAX_INTEGER
    if low is not None:
        least = max(least, math.floor(low.value) + 1 if low.is_open else math.ceil(low.value))
    if high is not None:
        most = min(most, math.ceil(high.value) - 1 if high.is_open else math.floor(high.value))
    least, most = -(-least // divisor) * divisor, most // divisor * divisor
    return (least, most) if least <= most else None


def is_number(value: Any) -> bool:
    """Whether a value is a number that JSON has."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)
