"""Paired samples of two rivals and what is said of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from bench.text_table import text_table


@dataclass(frozen=True, slots=True)
class Comparison:
    """Rates of both rivals, one pair a round; higher is better."""

    name: str
    ours: tuple[float, ...]
    theirs: tuple[float, ...]

    @property
    def medians(self) -> tuple[float, float]:
        """Median rate of each."""
        return median(self.ours), median(self.theirs)

    @property
    def ratio(self) -> float:
        """Ours by theirs, of the medians."""
        ours, theirs = self.medians
        return ours / theirs

    @property
    def spread(self) -> tuple[float, float]:
        """Least and largest ratio of one round."""
        ratios = [ours / theirs for ours, theirs in zip(self.ours, self.theirs, strict=True)]
        return min(ratios), max(ratios)

    def record(self) -> dict[str, Any]:
        """The comparison as JSON, with its samples."""
        ours, theirs = self.medians
        low, high = self.spread
        return {
            "name": self.name,
            "pantheon": round(ours, 3),
            "peer": round(theirs, 3),
            "ratio": round(self.ratio, 4),
            "spread": [round(low, 4), round(high, 4)],
            "pantheon_samples": [round(sample, 3) for sample in self.ours],
            "peer_samples": [round(sample, 3) for sample in self.theirs],
        }


def table(comparisons: Sequence[Comparison], title: str, peer: str, unit: str) -> str:
    """The comparisons as a text table: medians in `unit`, their ratio, its spread by round."""
    head = (title, f"pantheon {unit}", f"{peer} {unit}", "ratio", "spread")
    rows = [head]
    for comparison in comparisons:
        ours, theirs = comparison.medians
        low, high = comparison.spread
        rows.append(
            (
                comparison.name,
                f"{ours:,.1f}",
                f"{theirs:,.1f}",
                f"{comparison.ratio:.2f}x",
                f"{low:.2f}-{high:.2f}",
            )
        )
    return text_table(rows)
