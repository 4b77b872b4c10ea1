"""Plots of results; matplotlib is no dependency of the tests, so that they may be left out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="the extra `bench` is not installed")

from bench.errors import BenchError
from bench.plots import RACE, draw_plots, race_figure

RECORD = {
    "commit": "abc",
    "machine": {"cpu": "CPU", "cores": 2},
    "rows": [
        {"name": "decode 1 row", "ratio": 1.5, "goal": ">= 1.7", "met": False},
        {"name": "memory (1; 2 in all), 8 x 9", "ratio": 1.2, "goal": "<= 1.5", "met": True},
        {"name": "start", "difference": 1.5, "goal": "<= 3", "met": True},
    ],
}


def test_the_race_has_a_bar_for_each_ratio_with_a_goal() -> None:
    (axes,) = race_figure(RECORD).axes
    assert [bar.get_width() for bar in axes.patches] == [1.5, 1.2]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["decode 1 row", "memory, 8 x 9"]


def test_the_same_results_give_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "race.jsonl").write_text(json.dumps(RECORD) + "\n")
    drawn = draw_plots(tmp_path, tmp_path)
    assert drawn == [tmp_path / RACE]
    first = drawn[0].read_bytes()
    assert first.startswith(b"\x89PNG")
    draw_plots(tmp_path, tmp_path)
    assert drawn[0].read_bytes() == first


def test_without_results_nothing_is_drawn(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="no"):
        draw_plots(tmp_path, tmp_path)
