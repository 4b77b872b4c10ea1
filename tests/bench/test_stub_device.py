"""The device that computes nothing takes its time, one step after another."""

from __future__ import annotations

import time

from bench.stub_device import StubDevice
from pantheon.engine.row_sampling import RowSampling

GREEDY = RowSampling(0.0, 1.0, 0, 0)


def _decode(device: StubDevice, *positions: int) -> list[int]:
    rows = len(positions)
    tokens = device.decode(
        range(rows), positions, [()] * rows, [GREEDY] * rows, [None] * rows, [None] * rows, ()
    ).read()
    return [token.id for token in tokens]


def test_tokens_are_those_of_the_text_by_position() -> None:
    device = StubDevice([5, 6, 7], rows=2)
    assert device.prefill([1, 1, 1, 1], 0, (), 0).read() == []
    assert _decode(device, 0, 5) == [5, 7]


def test_steps_follow_one_another_and_none_ends_before_its_time() -> None:
    device = StubDevice([5], rows=1, step_seconds=0.02)
    began = time.perf_counter()
    steps = [device.decode([0], [0], [()], [GREEDY], [None], [None], ()) for _ in range(5)]
    assert time.perf_counter() - began < 0.02, "a dispatch does not wait"
    steps[-1].read()
    assert time.perf_counter() - began >= 0.1


def test_only_steps_of_all_rows_are_noted() -> None:
    device = StubDevice([5], rows=2)
    _decode(device, 0)
    _decode(device, 0, 0)
    _decode(device, 0, 0)
    assert len(device.dispatched) == 2
