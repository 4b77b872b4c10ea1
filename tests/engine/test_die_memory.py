"""Readings of die memory for the ladder (reference: `context_window` under memory pressure)."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from pantheon.engine.die_memory import die_readings, room_beside
from pantheon.engine.memory import Level, MemoryLadder


@dataclass
class _Die:
    platform: str
    stats: Mapping[str, Any] | None

    def memory_stats(self) -> Mapping[str, Any] | None:
        return self.stats


def test_the_fullest_die_decides() -> None:
    dies = [
        _Die("gpu", {"bytes_in_use": 10, "bytes_limit": 100}),
        _Die("gpu", {"bytes_in_use": 96, "bytes_limit": 100}),
    ]
    assert [reading() for reading in die_readings(dies)] == [0.1, 0.96]
    assert MemoryLadder(die_readings(dies)).level is Level.ROWS


def test_the_host_is_no_die() -> None:
    assert die_readings([_Die("cpu", {"bytes_in_use": 1, "bytes_limit": 1})]) == []


@pytest.mark.parametrize("stats", [None, {}, {"bytes_in_use": 5}, {"bytes_limit": 0}])
def test_a_die_that_states_nothing_is_under_no_pressure(stats: Mapping[str, Any] | None) -> None:
    assert die_readings([_Die("gpu", stats)])[0]() == 0.0


def test_more_in_use_than_there_is_counts_as_all() -> None:
    assert die_readings([_Die("gpu", {"bytes_in_use": 7, "bytes_limit": 5})])[0]() == 1.0


@pytest.mark.parametrize(
    ("stats", "room"),
    [({"bytes_limit": 100, "bytes_in_use": 90}, 70), ({"bytes_limit": 20}, 0), (None, sys.maxsize)],
)
def test_what_a_die_can_ever_give_beside_the_weights(
    stats: Mapping[str, Any] | None, room: int
) -> None:
    """Whatever else is there now may go."""
    assert room_beside(_Die("gpu", stats), 30) == room
