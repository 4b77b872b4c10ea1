"""Readings of die memory for the ladder (reference: `context_window` under memory pressure)."""

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pantheon.engine.config import EngineConfig
from pantheon.engine.die_memory import die_readings, room_beside
from pantheon.engine.dies import Die, DieManager
from pantheon.engine.memory import Level, next_level
from pantheon.engine.shared import Shared
from tests.engine.dies.fake_device import FakeDevice


def _manager(*stats: Mapping[str, Any] | None) -> DieManager:
    return DieManager([Die(at, at, FakeDevice(one), 100) for at, one in enumerate(stats)])


def _shares(manager: DieManager) -> list[float]:
    return [reading() for reading in die_readings(manager).values()]


def test_each_die_has_its_own_reading() -> None:
    manager = _manager(
        {"bytes_in_use": 10, "bytes_limit": 100}, {"bytes_in_use": 96, "bytes_limit": 100}
    )
    assert _shares(manager) == [0.1, 0.96]


def test_a_die_of_another_host_is_not_read() -> None:
    """Its statistics are not to be had here."""
    manager = DieManager(
        [Die(0, 0, FakeDevice(None), 1), Die(1, 0, FakeDevice(None), 1, is_local=False)]
    )
    assert list(die_readings(manager)) == [0]


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("weights", [30, 60, 90, 97])
def test_a_model_that_is_served_as_planned_is_no_pressure(weights: int, share: float) -> None:
    """Reference, `context_window`: the clamp is a reactive one. What was admitted and planned, the
    weights and the whole KV pool, is there for good and no reason to serve less of it."""
    limit, reserve = 105_000, 540
    held = weights * 1000 + int((limit - reserve - weights * 1000) * share)
    manager = _manager({"bytes_in_use": held + 10, "bytes_limit": limit})
    manager.bind("m", (0,), 0).hold({0: held})
    (used,) = _shares(manager)
    assert next_level(Level.NORMAL, used) is Level.NORMAL


@pytest.mark.parametrize(("in_use", "share"), [(60, 0.0), (80, 0.5), (98, 0.95), (100, 1.0)])
def test_what_takes_the_room_beside_the_models_is_pressure(in_use: int, share: float) -> None:
    manager = _manager({"bytes_in_use": in_use, "bytes_limit": 100})
    for name, held in (("a", 25), ("b", 35)):
        manager.bind(name, None, 0).hold({0: held})
    assert _shares(manager) == [pytest.approx(share)]


def test_what_a_load_was_promised_is_none() -> None:
    """From the estimate to what is held, whatever of it is allocated already."""
    manager = _manager({"bytes_in_use": 40, "bytes_limit": 100})
    binding = manager.bind("m", (0,), 70)
    assert _shares(manager) == [0.0]
    binding.hold({0: 30})
    assert _shares(manager) == [pytest.approx(10 / 70)]
    binding.claim(20)
    assert _shares(manager) == [0.0]
    binding.hold({0: 39})
    assert _shares(manager) == [pytest.approx(1 / 61)]
    binding.release()
    assert _shares(manager) == [0.4]


def test_a_pressure_file_stands_in_for_dies_too(tmp_path: Path) -> None:
    config = EngineConfig((), "cuda", "test", pressure_file=tmp_path / "none")
    full = _manager({"bytes_in_use": 100, "bytes_limit": 100})
    assert Shared.of(config, dies=full).pressure.level((0,)) is Level.NORMAL
    measured = Shared.of(replace(config, pressure_file=None), dies=full)
    assert measured.pressure.level((0,)) is Level.REFUSE


@pytest.mark.parametrize(("in_use", "share"), [(90, 0.0), (101, 1.0)])
def test_a_die_whose_memory_is_promised_to_the_last_byte(in_use: int, share: float) -> None:
    manager = _manager({"bytes_in_use": in_use, "bytes_limit": 100})
    manager.bind("m", (0,), 100)
    assert _shares(manager) == [share]


@pytest.mark.parametrize("stats", [None, {}, {"bytes_in_use": 5}, {"bytes_limit": 0}])
def test_a_die_that_states_nothing_is_under_no_pressure(stats: Mapping[str, Any] | None) -> None:
    assert _shares(_manager(stats)) == [0.0]


def test_more_in_use_than_there_is_counts_as_all() -> None:
    assert _shares(_manager({"bytes_in_use": 7, "bytes_limit": 5})) == [1.0]


@pytest.mark.parametrize(
    ("stats", "room"),
    [({"bytes_limit": 100, "bytes_in_use": 90}, 70), ({"bytes_limit": 20}, 0), (None, sys.maxsize)],
)
def test_what_a_die_can_ever_give_beside_the_weights(
    stats: Mapping[str, Any] | None, room: int
) -> None:
    """Whatever else is there now may go."""
    assert room_beside(FakeDevice(stats), 30) == room
