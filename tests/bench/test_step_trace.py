"""Traces of made-up turns."""

from __future__ import annotations

import pytest

from bench.microseconds import StepParts, step_table
from bench.step_trace import PARTS, StepTrace, Turn, steady_turns, typical


def _turns(*rows: int) -> list[Turn]:
    return [Turn(count, prefills=False, whole=float(index)) for index, count in enumerate(rows)]


def test_steady_turns_follow_turns_of_as_many_rows() -> None:
    turns = _turns(1, 8, 8, 8, 1, 8, 8)
    assert steady_turns(turns, 8) == turns[2:4]


def test_turns_with_or_after_a_prefill_are_not_steady() -> None:
    turns = _turns(8, 8, 8, 8, 8, 8)
    turns[2].prefills = True
    assert steady_turns(turns, 8) == [turns[1], turns[4]]


def test_a_turn_ends_where_the_next_plan_begins() -> None:
    trace = StepTrace()
    for step in range(4):
        trace.begin_turn(10.0 + 0.5 * step, rows=2, prefills=False)
        trace.add("plan", 0.1)
        trace.add("device", 0.2)
        trace.add("device", 0.1)
    report = trace.report(2)
    assert report["turns"] == 2
    assert report["whole"] == pytest.approx(0.5)
    assert report["parts"] == pytest.approx(
        {"plan": 0.1, "dispatch": 0.0, "device": 0.3, "tokens": 0.0}
    )


def test_pieces_are_told_by_their_mean() -> None:
    trace = StepTrace()
    trace.add_piece(0.25)
    trace.add_piece(0.75)
    assert trace.report(1) == {"turns": 0, "http_per_piece": 0.5}


def test_a_typical_turn_is_of_medians() -> None:
    turns = _turns(1, 1, 1)
    for turn, seconds in zip(turns, (3.0, 1.0, 2.0), strict=True):
        turn.parts["plan"] = seconds
    found = typical(turns)
    assert (found.parts["plan"], found.whole) == (2.0, 1.0)


def test_the_parts_and_the_rest_are_the_whole_step() -> None:
    parts = dict(zip(PARTS, (10.0, 20.0, 1000.0, 30.0), strict=True))
    found = StepParts(8, parts, rest=40.0, sampling=100.0, http=200.0, turns=9)
    assert found.whole == found.record()["whole"] == 1100.0
    lines = step_table([found]).splitlines()
    assert lines[2].split() == ["plan", "10"]
    assert lines[7].split()[-1] == "1,100"
