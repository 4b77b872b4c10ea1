"""Waits of clients as rows of the race."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from bench.goals import Goal
from bench.latency import Waits, percentile
from bench.race_rows import Row

GOAL: Final = Goal(0.7)


def wait_rows(clients: int, rounds: Sequence[tuple[Waits, Waits]]) -> list[Row]:
    """Rows of the waits of both servers, one pair a round.

    A percentile is that of all rounds together: of one round alone a 99th would be its longest
    wait. The spread is that of the rounds' own ratios.
    """
    where = f"{clients} client{'s' if clients > 1 else ''}"
    return [
        _row(f"first token, {where}, p50", rounds, _first, 50),
        _row(f"first token, {where}, p99", rounds, _first, 99),
        _row(f"between tokens, {where}, p99", rounds, _gaps, 99),
    ]


def _row(
    name: str,
    rounds: Sequence[tuple[Waits, Waits]],
    values: Callable[[Waits], tuple[float, ...]],
    percent: float,
) -> Row:
    ours, theirs = ([value for both in rounds for value in values(both[side])] for side in range(2))
    ratios = [
        percentile(values(one), percent) / percentile(values(other), percent)
        for one, other in rounds
    ]
    return Row(
        name,
        "ms",
        1000 * percentile(ours, percent),
        1000 * percentile(theirs, percent),
        GOAL,
        (min(ratios), max(ratios)),
        details={"values": len(ours)},
    )


def _first(waits: Waits) -> tuple[float, ...]:
    return waits.first


def _gaps(waits: Waits) -> tuple[float, ...]:
    return waits.gaps
