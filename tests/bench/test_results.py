"""Kept results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import machine, results


def test_runs_are_appended_a_line_each(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    for number in range(2):
        results.append(folder, "serving", {"run": number})
    lines = (folder / "serving.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"run": 0}, {"run": 1}]


def test_a_rate_that_is_no_number_is_not_kept(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        results.append(tmp_path, "serving", {"rate": float("nan")})


def test_a_description_of_the_machine_names_no_place(tmp_path: Path) -> None:
    record = machine.describe(tmp_path)
    text = json.dumps(record)
    assert str(tmp_path) not in text
    assert str(Path.home()) not in text
    assert record["commit"] == "unknown"
    assert record["machine"]["cores"] >= 1


def test_what_others_used_leaves_out_the_bench_and_its_servers() -> None:
    before = machine.CpuUse(at=0.0, all=100.0, here=10.0, servers=(20.0, 30.0))
    after = machine.CpuUse(at=10.0, all=120.0, here=11.0, servers=(28.0, 31.0))
    assert after.others_since(before) == 1.0
