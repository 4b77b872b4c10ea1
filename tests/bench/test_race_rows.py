"""Rows of the race with made-up values."""

from __future__ import annotations

import json

import pytest

from bench.goals import Goal
from bench.race_memory import MemoryReading, memory_row
from bench.race_rows import Row, race_table
from bench.resident import Resident

MIB = 2**20


def test_rates_are_compared_by_the_ratio_of_their_medians() -> None:
    samples = [(30.0, 10.0), (20.0, 10.0), (40.0, 40.0)]
    row = Row.of_samples("decode", "tok/s", samples, Goal(3.0, at_most=False))
    assert (row.ours, row.theirs, row.compared) == (30.0, 10.0, 3.0)
    assert row.spread == (1.0, 3.0)
    assert row.met


def test_starts_are_compared_by_their_difference() -> None:
    samples = [(9.0, 2.0), (6.0, 2.0), (7.0, 4.0)]
    row = Row.of_samples("start", "s", samples, Goal(3.0), is_difference=True)
    assert row.compared == 5.0
    assert row.spread == (3.0, 7.0)
    assert row.met is False


def test_memory_is_ours_beyond_the_bare_process() -> None:
    ours = MemoryReading(Resident(900 * MIB, 950 * MIB), Resident(1000 * MIB, 1100 * MIB))
    theirs = MemoryReading(Resident(500 * MIB, 500 * MIB), Resident(600 * MIB, 600 * MIB))
    row = memory_row(8, 1024, Resident(100 * MIB, 150 * MIB), ours, theirs)
    assert (row.ours, row.theirs, row.compared, row.met) == (900.0, 600.0, 1.5, True)
    assert "beyond bare (100; 1000 in all)" in row.name
    record = json.loads(json.dumps(row.record()))
    assert record["bare"] == {"pss_mib": 100.0, "rss_mib": 150.0}
    assert record["pantheon_memory"]["after_load"] == {"pss_mib": 900.0, "rss_mib": 950.0}
    assert record["peer_memory"]["after_requests"]["pss_mib"] == 600.0


def test_the_table_shows_goals_and_what_is_missed() -> None:
    rows = [
        Row("decode 1 row", "tok/s", 50.0, 25.0, Goal(1.7, at_most=False), (1.9, 2.1)),
        Row("first token", "ms", 80.0, 100.0, Goal(0.7), (0.7, 0.9)),
        Row("decode 2 rows", "tok/s", 99.0, 60.0, Goal(2.5, at_most=False), of_probe=0.924),
        Row("start", "s", 7.0, 2.5, Goal(3.0), (4.0, 5.0), is_difference=True),
        Row("bare", "MiB", 100.0, 50.0),
    ]
    assert race_table(rows, "llama.cpp").splitlines() == [
        "measured       unit   pantheon  llama.cpp  ratio     spread    goal          of probe",
        "-------------  -----  --------  ---------  -----  ---------  ------  ------  --------",
        "decode 1 row   tok/s      50.0       25.0  2.00x  1.90-2.10  >= 1.7     met",
        "first token    ms         80.0      100.0  0.80x  0.70-0.90  <= 0.7  MISSED",
        "decode 2 rows  tok/s      99.0       60.0  1.65x             >= 2.5  MISSED       92%",
        "start          s           7.0        2.5  +4.50  4.00-5.00    <= 3  MISSED",
        "bare           MiB       100.0       50.0  2.00x",
    ]


def test_a_rate_is_compared_with_what_the_probe_gave_beside_it() -> None:
    samples = [(90.0, 50.0), (80.0, 50.0), (99.0, 50.0)]
    row = Row.of_samples("x", "tok/s", samples, None, probes=[100.0, 100.0, 90.0])
    assert row.of_probe == 0.9
    assert row.record()["of_probe"] == 0.9


@pytest.mark.parametrize(("is_difference", "key"), [(False, "ratio"), (True, "difference")])
def test_a_record_says_how_the_values_are_compared(is_difference: bool, key: str) -> None:
    row = Row("x", "s", 3.0, 2.0, Goal(3.0), is_difference=is_difference)
    record = row.record()
    assert record[key] == row.compared
    assert (record["goal"], record["met"]) == ("<= 3", True)
