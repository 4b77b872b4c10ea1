"""The last kept results as pictures, which README shows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bench.errors import BenchError
from bench.microseconds import LABELS
from bench.step_trace import PARTS

RACE: Final = "bench-race.png"
OVERHEAD: Final = "bench-overhead.png"
ACCURACY: Final = "bench-accuracy.png"
_MET: Final = "#3a7d44"
_MISSED: Final = "#b5452c"
_GREY: Final = "#8a8a8a"
_COLOURS: Final = ("#4c72b0", "#dd8452", "#c7c7c7", "#55a868", "#8172b3")
_DPI: Final = 110


def draw_plots(results: Path, docs: Path) -> list[Path]:
    """Draw what has results; the files.

    Raises:
        BenchError: there are none at all.
    """
    drawn = []
    for kind, name, draw in (
        ("race", RACE, race_figure),
        ("kl", ACCURACY, accuracy_figure),
        ("overhead", OVERHEAD, overhead_figure),
    ):
        record = last_record(results / f"{kind}.jsonl")
        if record is not None:
            figure = draw(record)
            FigureCanvasAgg(figure)
            # Neither version nor date: the same results give the same file.
            figure.savefig(docs / name, dpi=_DPI, metadata={"Software": None})
            drawn.append(docs / name)
    if not drawn:
        raise BenchError(
            f"expected results in {results.name}/, there are none; run the bench first"
        )
    return drawn


def last_record(file: Path) -> dict[str, Any] | None:
    """The last line of a file of results; None where there is none."""
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    return json.loads(lines[-1]) if lines else None


def race_figure(record: Mapping[str, Any]) -> Figure:
    """Ratios to llama.cpp as bars, each with its goal as a mark."""
    rows = [row for row in record["rows"] if "ratio" in row and row["goal"] is not None]
    figure = Figure(figsize=(9, 0.32 * len(rows) + 1.4), layout="constrained")
    axes = figure.subplots()
    places = range(len(rows), 0, -1)
    axes.barh(
        list(places),
        [row["ratio"] for row in rows],
        color=[_MET if row["met"] else _MISSED for row in rows],
        height=0.62,
    )
    for place, row in zip(places, rows, strict=True):
        sign, bound = row["goal"].split()
        axes.plot([float(bound)] * 2, [place - 0.42, place + 0.42], color="black", linewidth=2)
        axes.annotate(
            f"{row['ratio']:.2f}x, goal {sign} {bound}",
            (max(row["ratio"], float(bound)), place),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
    axes.set_yticks(list(places), [_short(row["name"]) for row in rows], fontsize=8)
    axes.axvline(1, color=_GREY, linewidth=1)
    axes.set_xlim(0, 1.35 * max(max(row["ratio"], float(row["goal"].split()[1])) for row in rows))
    axes.set_xlabel("Pantheon by llama.cpp; the mark is the goal, green where it is met")
    axes.set_title(_where(record), fontsize=9)
    return figure


def accuracy_figure(record: Mapping[str, Any]) -> Figure:
    """Mean KL divergence of each mode beside llama.cpp's, on a logarithmic axis."""
    rows = record["rows"]
    figure = Figure(figsize=(8, 0.5 * len(rows) + 1.4), layout="constrained")
    axes = figure.subplots()
    places = range(len(rows), 0, -1)
    # Float64 computes none of two equal distributions, which a logarithm has no place for.
    ours = [max(row["pantheon"]["mean"], 1e-12) for row in rows]
    theirs = [row["peer"]["mean"] for row in rows]
    axes.set_xlim(min(ours) / 10, 10 * max(theirs))
    axes.barh([place + 0.2 for place in places], ours, height=0.36, color=_MET, label="Pantheon")
    axes.barh(
        [place - 0.2 for place in places], theirs, height=0.36, color=_GREY, label="llama.cpp"
    )
    axes.set_xscale("log")
    axes.set_yticks(list(places), [f"{row['mode']}, {row['way']}" for row in rows], fontsize=8)
    axes.set_xlabel("mean KL divergence from the float32 reference, nats")
    axes.set_title(_where(record), fontsize=9)
    figure.legend(loc="outside lower center", ncols=2, fontsize=8)
    return figure


def overhead_figure(record: Mapping[str, Any]) -> Figure:
    """The parts of a decode step, stacked, for each number of rows."""
    steps = record["steps"]
    names = (*PARTS, "rest")
    figure = Figure(figsize=(8, 0.8 * len(steps) + 1.6), layout="constrained")
    axes = figure.subplots()
    places = list(range(len(steps), 0, -1))
    left = [0.0] * len(steps)
    for name, colour in zip(names, _COLOURS, strict=True):
        values = [step[name] / 1000 for step in steps]
        axes.barh(places, values, left=left, color=colour, height=0.5, label=LABELS[name])
        left = [start + value for start, value in zip(left, values, strict=True)]
    for place, step in zip(places, steps, strict=True):
        axes.annotate(
            f"sampling {step['sampling'] / 1000:.2f} ms of the device's, "
            f"HTTP {step['http'] / 1000:.2f} ms on other threads",
            (0, place + 0.3),
            xytext=(4, 2),
            textcoords="offset points",
            fontsize=8,
        )
    axes.set_yticks(places, [_rows(step["rows"]) for step in steps])
    axes.set_ylim(0.5, len(steps) + 0.7)
    axes.set_xlabel("milliseconds from one decode step to the next")
    axes.set_title(_where(record), fontsize=9)
    figure.legend(loc="outside lower center", ncols=len(names), fontsize=8)
    return figure


def _where(record: Mapping[str, Any]) -> str:
    machine = record["machine"]
    return f"{machine['cpu']}, {machine['cores']} cores, commit {record['commit']}"


def _short(name: str) -> str:
    """A row's name without the numbers in brackets, which are of one run."""
    before, _, rest = name.partition(" (")
    return before + rest.partition(")")[2]


def drawn_names(drawn: Sequence[Path]) -> str:
    """The files by name, for the terminal."""
    return ", ".join(f"{file.parent.name}/{file.name}" for file in drawn)


def _rows(count: int) -> str:
    return f"{count} row{'s' if count > 1 else ''}"
