"""The memory ladder: climbs at once, recovers step by step, never flaps."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pantheon.engine.memory import (
    READING_SECONDS,
    Clamp,
    Level,
    MemoryLadder,
    MemoryPressure,
    clamp,
    next_level,
)
from tests.log_records import records_of

LOGGER = "pantheon.engine.memory"
LEVELS = st.sampled_from(Level)
SHARES = st.floats(0, 1)
SIZES = st.integers(1, 10**6)


class Clock:
    """Time that goes on when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Host:
    """A share of memory in use, and how often it was asked for."""

    def __init__(self, share: float = 0.0) -> None:
        self.share = share
        self.asked = 0

    def __call__(self) -> float:
        self.asked += 1
        return self.share


@pytest.fixture
def clock() -> Clock:
    return Clock()


def levels(ladder: MemoryLadder, clock: Clock, count: int) -> list[Level]:
    """The levels of so many readings."""
    seen = []
    for _ in range(count):
        seen.append(ladder.level)
        clock.now += READING_SECONDS
    return seen


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (Level.NORMAL, Clamp(8192, 8, admits=True)),
        (Level.WINDOW, Clamp(4096, 8, admits=True)),
        (Level.ROWS, Clamp(2048, 4, admits=True)),
        (Level.REFUSE, Clamp(2048, 4, admits=False)),
    ],
)
def test_what_each_level_serves(level: Level, expected: Clamp) -> None:
    assert clamp(level, 8192, 8, 64) == expected


def test_clamped_window_is_whole_pages_and_at_least_one() -> None:
    assert clamp(Level.WINDOW, 1000, 1, 64) == Clamp(448, 1, admits=True)
    assert clamp(Level.ROWS, 100, 1, 64) == Clamp(64, 1, admits=True)
    assert clamp(Level.ROWS, 50, 1, 64) == Clamp(50, 1, admits=True)


@given(window=SIZES, rows=st.integers(1, 64), page_size=st.integers(1, 512))
def test_a_higher_level_never_serves_more(window: int, rows: int, page_size: int) -> None:
    clamps = [clamp(level, window, rows, page_size) for level in Level]
    for lower, higher in pairwise(clamps):
        assert 1 <= higher.window <= lower.window
        assert 1 <= higher.rows <= lower.rows
        assert higher.admits <= lower.admits
    assert clamps[0] == Clamp(window, rows, admits=True)
    assert all(c.window % page_size == 0 or c.window == window for c in clamps)


@pytest.mark.parametrize(
    ("share", "level"),
    [
        (0.0, Level.NORMAL),
        (0.919, Level.NORMAL),
        (0.92, Level.WINDOW),
        (0.95, Level.ROWS),
        (0.98, Level.REFUSE),
        (1.0, Level.REFUSE),
    ],
)
def test_climbs_at_once_to_what_the_share_demands(share: float, level: Level) -> None:
    assert next_level(Level.NORMAL, share) is level


@given(start=LEVELS, share=SHARES)
def test_constant_input_never_flaps(start: Level, share: float) -> None:
    """It goes one way and then stays, within as many readings as there are levels."""
    seen = [start]
    for _ in range(10):
        seen.append(next_level(seen[-1], share))
    assert seen == sorted(seen) or seen == sorted(seen, reverse=True)
    assert len(set(seen[len(Level) :])) == 1


@given(start=LEVELS, shares=st.lists(SHARES, max_size=30))
def test_recovers_fully_from_whatever_was(start: Level, shares: list[float]) -> None:
    level = start
    for share in shares:
        level = next_level(level, share)
    for _ in Level:
        level = next_level(level, 0.5)
    assert level is Level.NORMAL


@given(level=LEVELS, share=SHARES)
def test_falls_by_one_step_at_most(level: Level, share: float) -> None:
    assert next_level(level, share) >= level - 1


@given(level=LEVELS, low=SHARES, high=SHARES)
def test_more_in_use_never_means_a_lower_level(level: Level, low: float, high: float) -> None:
    low, high = min(low, high), max(low, high)
    assert next_level(level, low) <= next_level(level, high)


def test_level_is_left_only_with_a_margin() -> None:
    """Around a threshold it holds still."""
    assert next_level(Level.ROWS, 0.949) is Level.ROWS
    assert next_level(Level.ROWS, 0.921) is Level.ROWS
    assert next_level(Level.ROWS, 0.919) is Level.WINDOW


def test_reading_counts_for_a_quarter_of_a_second(clock: Clock) -> None:
    host = Host()
    ladder = MemoryLadder(host, clock=clock)
    assert host.asked == 0
    assert [ladder.level for _ in range(5)] == [Level.NORMAL] * 5
    host.share = 0.99
    clock.now += 0.24
    assert ladder.level is Level.NORMAL
    assert host.asked == 1
    clock.now += 0.01
    assert ladder.level is Level.REFUSE
    assert host.asked == 2


def test_goes_up_in_one_reading_and_down_in_three(clock: Clock) -> None:
    host = Host(0.99)
    ladder = MemoryLadder(host, clock=clock)
    assert levels(ladder, clock, 2) == [Level.REFUSE, Level.REFUSE]
    host.share = 0.5
    assert levels(ladder, clock, 4) == [Level.ROWS, Level.WINDOW, Level.NORMAL, Level.NORMAL]


def _pressure(clock: Clock, host: float, *dies: float) -> MemoryPressure:
    return MemoryPressure(
        MemoryLadder(Host(host), clock=clock),
        {at: MemoryLadder(Host(share), clock=clock) for at, share in enumerate(dies)},
    )


def test_what_a_model_needs_and_is_shortest_decides_and_nothing_else(clock: Clock) -> None:
    """The host serves every model, a die only those that are on it."""
    pressure = _pressure(clock, 0.93, 0.96, 0.1, 0.99)
    assert pressure.level((0, 1)) is Level.ROWS
    assert pressure.level((1,)) is Level.WINDOW
    assert pressure.level(()) is Level.WINDOW
    assert pressure.clamp((0,), 8192, 8, 64) == clamp(Level.ROWS, 8192, 8, 64)
    assert pressure.clamp((1, 2), 8192, 8, 64) == clamp(Level.REFUSE, 8192, 8, 64)


def test_a_die_of_another_host_has_no_reading(clock: Clock) -> None:
    assert _pressure(clock, 0.1, 0.99).level((5,)) is Level.NORMAL


@pytest.mark.parametrize(
    ("host", "dies", "named", "admits"),
    [
        (0.1, (0.99, 0.1), (1,), True),
        (0.1, (0.99, 0.1), (0, 1), False),
        (0.1, (0.99, 0.1), None, True),
        (0.1, (0.99, 0.99), None, False),
        (0.1, (0.96,), (0,), True),
        (0.99, (0.1,), (0,), False),
        (0.99, (), None, False),
        (0.1, (), None, True),
    ],
)
def test_a_full_die_refuses_only_loads_that_need_it(
    clock: Clock,
    host: float,
    dies: tuple[float, ...],
    named: tuple[int, ...] | None,
    admits: bool,
) -> None:
    assert _pressure(clock, host, *dies).admits_load(named) is admits


def test_each_change_is_one_line(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    host = Host(0.96)
    ladder = MemoryLadder(host, clock=clock)
    levels(ladder, clock, 3)
    host.share = 0.1
    levels(ladder, clock, 3)
    assert [(record.levelname, record.getMessage()) for record in records_of(caplog, LOGGER)] == [
        ("WARNING", "memory: 96.0 % in use, level ROWS after NORMAL"),
        ("INFO", "memory: 10.0 % in use, level WINDOW after ROWS"),
        ("INFO", "memory: 10.0 % in use, level NORMAL after WINDOW"),
    ]


def test_the_line_says_whose_memory_it_is(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    levels(MemoryLadder(Host(0.96), of="room on die 3", clock=clock), clock, 1)
    (record,) = records_of(caplog, LOGGER)
    assert record.getMessage() == "room on die 3: 96.0 % in use, level ROWS after NORMAL"


def test_pressure_file_stands_in_for_the_readings(clock: Clock, tmp_path: Path) -> None:
    file = tmp_path / "pressure"
    ladder = MemoryLadder(Host(1.0), pressure_file=file, clock=clock)
    assert levels(ladder, clock, 1) == [Level.NORMAL]
    file.write_text(" 0.93\n")
    assert levels(ladder, clock, 1) == [Level.WINDOW]
    file.write_text("1")
    assert levels(ladder, clock, 1) == [Level.REFUSE]
    file.write_text("")
    assert levels(ladder, clock, 1) == [Level.ROWS]
    file.unlink()
    assert levels(ladder, clock, 2) == [Level.WINDOW, Level.NORMAL]


@pytest.mark.parametrize("text", ["much", "1.01", "-0.1", "nan", "inf", "0.99 0.99", "9" * 10_000])
def test_bad_pressure_file_is_ignored_with_one_line(
    clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    file = tmp_path / "pressure"
    file.write_text(text)
    ladder = MemoryLadder(Host(0.0), pressure_file=file, clock=clock)
    assert set(levels(ladder, clock, 4)) == {Level.NORMAL}
    (record,) = records_of(caplog, LOGGER)
    message = record.getMessage()
    assert "expected" in message
    assert "\n" not in message
    assert len(message) < 300


def test_pressure_file_that_is_damaged_again_is_told_again(
    clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "pressure"
    ladder = MemoryLadder(Host(), pressure_file=file, clock=clock)
    for text in ("much", "0.1", "much"):
        file.write_text(text)
        levels(ladder, clock, 2)
    assert len(records_of(caplog, LOGGER)) == 2


def test_many_threads_share_one_reading(clock: Clock) -> None:
    host = Host(0.96)
    ladder = MemoryLadder(host, clock=clock)
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: ladder.level, range(200))) == {Level.ROWS}
    assert host.asked == 1


def test_an_idle_server_has_recovered_when_it_is_asked_again(clock: Clock) -> None:
    """The first request after pressure must not be refused for what is long past."""
    host = Host(0.99)
    ladder = MemoryLadder(host, clock=clock)
    assert ladder.level is Level.REFUSE
    host.share = 0.1
    clock.now += 2 * READING_SECONDS
    assert ladder.level is Level.WINDOW
    host.share = 0.99
    clock.now += READING_SECONDS
    assert ladder.level is Level.REFUSE
    host.share = 0.1
    clock.now += 3600
    assert ladder.level is Level.NORMAL
