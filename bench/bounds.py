"""What the products alone allow: an upper bound for each rate of the race on this processor."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.forward import DecodeSteps
from bench.peaks import Peaks
from bench.products import NativeProducts, PlainProducts, Sizes, sizes_of
from bench.race import DECODE_GOALS, PREFILL_GOAL, PREFILL_TOKENS
from bench.text_table import text_table

_FILE: Final = "race.jsonl"
_LARGER: Final = "larger: "
"""Before the names of the rows of the race's second model."""


@dataclass(frozen=True, slots=True)
class Work:
    """The products of one row of the race.

    Attributes:
        name: the row's.
        rows: multiplied at once.
        heads: of them that get scores.
        goal: times the peer's rate that are to be reached.
    """

    name: str
    rows: int
    heads: int
    goal: float


@dataclass(frozen=True, slots=True)
class Bound:
    """Tokens per second of a row, if nothing but its products took time.

    Attributes:
        float32: at the peak of fused multiply-adds, and not faster than the weights are read.
        int16: the same of 16-bit multiply-adds, one for each weight and row.
        memory: as fast as the weights are read.
        plain: measured with numpy's float32 product, weights unpacked before.
        native: measured with our kernels; None where they are not built.
        steps: measured with whole decode steps in a loop, which attend and choose tokens too;
            None for prefill.
        wanted: what the goal asks for; None where no race was kept.
        served: what the last race measured; None where none was kept.
    """

    work: Work
    float32: float
    int16: float
    memory: float
    plain: float
    native: float | None
    steps: float | None
    wanted: float | None
    served: float | None

    def record(self) -> dict[str, Any]:
        """The bound as JSON."""
        numbers = {
            "float32": self.float32,
            "int16": self.int16,
            "memory": self.memory,
            "plain": self.plain,
            "native": self.native,
            "steps": self.steps,
            "wanted": self.wanted,
            "served": self.served,
        }
        return {"name": self.work.name} | {
            name: None if value is None else round(value, 2) for name, value in numbers.items()
        }


def works() -> tuple[Work, ...]:
    """The rates of the race."""
    return (
        Work(f"prefill {PREFILL_TOKENS} tokens", PREFILL_TOKENS, 1, PREFILL_GOAL.bound),
        *(
            Work(f"decode {rows} row{'s' if rows > 1 else ''}", rows, rows, goal.bound)
            for rows, goal in DECODE_GOALS.items()
        ),
    )


def peak_rates(sizes: Sizes, work: Work, peaks: Peaks) -> tuple[float, float, float]:
    """Tokens per second at the peaks of float32, of int16, and of memory.

    Weights are read once however many rows there are, and products wait for them or they for the
    products, whichever is slower.
    """
    reading = sizes.bytes / peaks.bytes
    macs = sizes.macs(work.rows, work.heads)
    float32, int16 = (max(reading, macs / peak) for peak in (peaks.float32, peaks.int16))
    return work.rows / float32, work.rows / int16, work.rows / reading


def bound_rates(model: Path, peaks: Peaks, results: Path) -> list[Bound]:
    """Measure products and steps of each row; compare them with the peaks and the last race.

    Args:
        results: the folder of kept results.
    """
    sizes = sizes_of(model)
    plain = PlainProducts(model)
    times = [work.rows / plain.seconds(work.rows, work.heads) for work in works()]
    del plain
    native = NativeProducts.where_built(model)
    steps = DecodeSteps(model)
    raced = last_race(results, model.name)
    bounds = []
    for work, measured in zip(works(), times, strict=True):
        ours, theirs = raced.get(work.name, (None, None))
        kernels = None if native is None else work.rows / native.seconds(work.rows, work.heads)
        bounds.append(
            Bound(
                work,
                *peak_rates(sizes, work, peaks),
                measured,
                kernels,
                work.rows / steps.seconds(work.rows) if work.heads == work.rows else None,
                None if theirs is None else work.goal * theirs,
                ours,
            )
        )
    return bounds


def last_race(results: Path, model: str) -> dict[str, tuple[float, float]]:
    """Rates by row of the last kept race over a model, ours and the peer's; else nothing."""
    file = results / _FILE
    if not file.exists():
        return {}
    records = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    for record in reversed(records):
        for place, raced in enumerate(record["models"]):
            if raced["file"] == model:
                prefix = _LARGER if place else ""
                return {
                    row["name"].removeprefix(prefix): (row["pantheon"], row["peer"])
                    for row in record["rows"]
                    if row["name"].startswith(_LARGER) == bool(place)
                }
    return {}


def bound_table(bounds: Sequence[Bound]) -> str:
    """The bounds as a text table, in tokens per second."""
    head = ("tok/s", "float32 peak", "int16 peak", "memory", "numpy sgemm", "our kernels", "steps")
    lines: list[tuple[str, ...]] = [(*head, "wanted", "served", "of kernels", "of steps")]
    for bound in bounds:
        numbers = (
            *(bound.float32, bound.int16, bound.memory, bound.plain),
            *(bound.native, bound.steps, bound.wanted, bound.served),
        )
        cells = ("" if number is None else f"{number:,.1f}" for number in numbers)
        shares = (_share(bound.served, of) for of in (bound.native, bound.steps))
        lines.append((bound.work.name, *cells, *shares))
    return text_table(lines)


def _share(part: float | None, whole: float | None) -> str:
    return "" if part is None or whole is None else f"{part / whole:.0%}"
