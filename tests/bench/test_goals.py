"""Values beside their goals."""

from __future__ import annotations

import json

import pytest

from bench.goals import Goal, Measure, goal_table


@pytest.mark.parametrize(
    ("goal", "value", "met"),
    [
        (Goal(1.0), 1.0, True),
        (Goal(1.0), 1.001, False),
        (Goal(0.5, at_most=False), 0.5, True),
        (Goal(0.5, at_most=False), 0.499, False),
    ],
    ids=str,
)
def test_a_goal_is_an_upper_or_a_lower_bound(goal: Goal, value: float, met: bool) -> None:
    assert goal.met(value) is met
    assert Measure("x", "ms", value, goal).met is met


def test_the_table_says_what_is_met_and_what_is_missed() -> None:
    measures = [
        Measure("warm by cold", "", 0.125, Goal(0.05), peer=0.5),
        Measure("GET /", "ms", 2.0, Goal(100)),
        Measure("first token", "s", 1234.5),
    ]
    assert goal_table(measures, "llama.cpp").splitlines() == [
        "measured      unit   pantheon  llama.cpp     goal",
        "------------  ----  ---------  ---------  -------  ------",
        "warm by cold            0.125      0.500  <= 0.05  MISSED",
        "GET /         ms        2.000              <= 100     met",
        "first token   s     1,234.500",
    ]


def test_a_record_is_json_with_the_details() -> None:
    record = Measure("a", "s", 1.00004, Goal(2, at_most=False), details={"turns": [1]}).record()
    assert json.loads(json.dumps(record)) == {
        "name": "a",
        "unit": "s",
        "pantheon": 1.0,
        "peer": None,
        "goal": ">= 2",
        "met": False,
        "turns": [1],
    }
