"""Measured values beside what they are to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.text_table import text_table


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound: the value is to be at most, or else at least, so much."""

    bound: float
    at_most: bool = True

    def met(self, value: float) -> bool:
        """Whether a value keeps to it."""
        return value <= self.bound if self.at_most else value >= self.bound

    def __str__(self) -> str:
        return f"{'<=' if self.at_most else '>='} {self.bound:g}"


@dataclass(frozen=True, slots=True)
class Measure:
    """One measured value.

    Attributes:
        peer: the same of the peer, where it was measured.
        goal: None for a value that explains another.
        details: what else was seen, as JSON.
    """

    name: str
    unit: str
    value: float
    goal: Goal | None = None
    peer: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without one."""
        return None if self.goal is None else self.goal.met(self.value)

    def record(self) -> dict[str, Any]:
        """The measure as JSON."""
        return {
            "name": self.name,
            "unit": self.unit,
            "pantheon": round(self.value, 4),
            "peer": None if self.peer is None else round(self.peer, 4),
            "goal": None if self.goal is None else str(self.goal),
            "met": self.met,
            **self.details,
        }


def goal_table(measures: Sequence[Measure], peer: str) -> str:
    """The measures as a text table."""
    rows = [("measured", "unit", "pantheon", peer, "goal", "")]
    for one in measures:
        rows.append(
            (
                one.name,
                one.unit,
                f"{one.value:,.3f}",
                "" if one.peer is None else f"{one.peer:,.3f}",
                "" if one.goal is None else str(one.goal),
                {None: "", True: "met", False: "MISSED"}[one.met],
            )
        )
    return text_table(rows, left=2)
