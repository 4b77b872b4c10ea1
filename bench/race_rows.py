"""Rows of the race: both measured values, what is said of them, and the goal of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from bench.goals import Goal
from bench.text_table import text_table


@dataclass(frozen=True, slots=True)
class Row:
    """One row.

    Attributes:
        unit: of both values.
        ours: our value, a median or a percentile.
        theirs: the peer's.
        goal: for `compared`; None for a row that explains another.
        spread: least and largest ratio of one round; None where there was one.
        is_difference: whether the values are compared by ours less theirs, and not by ours by
            theirs.
        of_probe: what part of the rate of a probe ours is, which was measured beside each of our
            samples and computes the products alone; None without one.
        details: what else was seen, as JSON.
    """

    name: str
    unit: str
    ours: float
    theirs: float
    goal: Goal | None = None
    spread: tuple[float, float] | None = None
    is_difference: bool = False
    of_probe: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def of_samples(
        name: str,
        unit: str,
        samples: Sequence[tuple[float, float]],
        goal: Goal | None,
        *,
        is_difference: bool = False,
        probes: Sequence[float] = (),
    ) -> Row:
        """The medians of samples that were taken in pairs, ours first.

        Args:
            probes: the probe's value beside each pair; none without a probe.
        """
        ours, theirs = (tuple(side) for side in zip(*samples, strict=True))
        compare = _difference if is_difference else _ratio
        each = [compare(*pair) for pair in samples]
        return Row(
            name,
            unit,
            median(ours),
            median(theirs),
            goal,
            (min(each), max(each)),
            is_difference,
            median(map(_ratio, ours, probes)) if probes else None,
            {
                "samples": [[round(value, 4) for value in pair] for pair in samples],
                "probes": [round(value, 4) for value in probes],
            },
        )

    @property
    def compared(self) -> float:
        """Ours by theirs, or less theirs."""
        return (_difference if self.is_difference else _ratio)(self.ours, self.theirs)

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without one."""
        return None if self.goal is None else self.goal.met(self.compared)

    def record(self) -> dict[str, Any]:
        """The row as JSON."""
        return {
            "name": self.name,
            "unit": self.unit,
            "pantheon": round(self.ours, 4),
            "peer": round(self.theirs, 4),
            "difference" if self.is_difference else "ratio": round(self.compared, 4),
            "spread": None if self.spread is None else [round(one, 4) for one in self.spread],
            "goal": None if self.goal is None else str(self.goal),
            "met": self.met,
            "of_probe": None if self.of_probe is None else round(self.of_probe, 4),
            **self.details,
        }


def _ratio(ours: float, theirs: float) -> float:
    return ours / theirs


def _difference(ours: float, theirs: float) -> float:
    return ours - theirs


def race_table(rows: Sequence[Row], peer: str) -> str:
    """The rows as a text table."""
    lines = [("measured", "unit", "pantheon", peer, "ratio", "spread", "goal", "", "of probe")]
    for row in rows:
        sign = "+" if row.is_difference else ""
        end = "" if row.is_difference else "x"
        spread = "" if row.spread is None else f"{row.spread[0]:.2f}-{row.spread[1]:.2f}"
        lines.append(
            (
                row.name,
                row.unit,
                f"{row.ours:,.1f}",
                f"{row.theirs:,.1f}",
                f"{row.compared:{sign}.2f}{end}",
                spread,
                "" if row.goal is None else str(row.goal),
                {None: "", True: "met", False: "MISSED"}[row.met],
                "" if row.of_probe is None else f"{row.of_probe:.0%}",
            )
        )
    return text_table(lines, left=2)
