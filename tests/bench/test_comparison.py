"""Medians, ratios and the table."""

from __future__ import annotations

import json

from bench.comparison import Comparison, table

COMPARISON = Comparison("decode 1 row", (30.0, 10.0, 20.0), (10.0, 10.0, 5.0))


def test_the_ratio_is_that_of_the_medians_and_the_spread_that_of_the_rounds() -> None:
    assert COMPARISON.medians == (20.0, 10.0)
    assert COMPARISON.ratio == 2.0
    assert COMPARISON.spread == (1.0, 4.0)


def test_an_even_number_of_rounds_has_the_mean_of_the_middle_two() -> None:
    assert Comparison("x", (1.0, 2.0, 4.0, 9.0), (1.0,) * 4).medians == (3.0, 1.0)


def test_the_record_keeps_every_sample() -> None:
    record = json.loads(json.dumps(COMPARISON.record()))
    assert record == {
        "name": "decode 1 row",
        "pantheon": 20.0,
        "peer": 10.0,
        "ratio": 2.0,
        "spread": [1.0, 4.0],
        "pantheon_samples": [30.0, 10.0, 20.0],
        "peer_samples": [10.0, 10.0, 5.0],
    }


def test_the_table_lines_up() -> None:
    fast = Comparison("prefill 512 tokens", (1234.56,), (300.0,))
    assert table((COMPARISON, fast), "workload", "llama.cpp", "tok/s").splitlines() == [
        "workload            pantheon tok/s  llama.cpp tok/s  ratio     spread",
        "------------------  --------------  ---------------  -----  ---------",
        "decode 1 row                  20.0             10.0  2.00x  1.00-4.00",
        "prefill 512 tokens         1,234.6            300.0  4.12x  4.12-4.12",
    ]
