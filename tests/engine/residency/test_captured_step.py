"""A step with graphs beside the one without (reference, `graphs`: a failed capture "falls back to
the direct kernel body and produces correct output")."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from pantheon.engine.residency import Backoff, CapturedStep, CaptureFailed


def _plain(*arguments: Any) -> Any:
    return ("plain", *arguments)


def _captured(*arguments: Any) -> Any:
    return ("captured", *arguments)


class _Device:
    """Captures or refuses to, by what a script says of each attempt."""

    def __init__(self, *attempts: str) -> None:
        self.now = 0.0
        self.script = list(attempts)

    def capture(self) -> Callable[..., Any]:
        outcome = self.script.pop(0)
        if outcome == "refuse":
            raise CaptureFailed("no memory for a graph")
        if outcome == "break":
            return self._broken
        return _captured

    @staticmethod
    def _broken(*arguments: Any) -> Any:
        raise CaptureFailed("a launch was not recorded")

    def step(self, attempts: int = 3) -> CapturedStep:
        return CapturedStep("decode 1", _plain, self.capture, Backoff(lambda: self.now, attempts))


def test_a_captured_step_runs_as_graphs() -> None:
    step = _Device("work").step()
    assert not step.exercised
    assert step(1, 2) == ("captured", 1, 2)
    assert step.exercised
    assert step.captured is _captured
    assert (step.captures, step.failures, step.failed, step.gave_up) == (1, 0, False, False)


@pytest.mark.parametrize("outcome", ["refuse", "break"])
def test_a_capture_that_fails_costs_no_result_and_is_retried(
    outcome: str, caplog: pytest.LogCaptureFixture
) -> None:
    device = _Device(outcome, "work")
    step = device.step()
    with caplog.at_level(logging.WARNING):
        assert step("a") == ("plain", "a")
    assert "decode 1 runs without graphs" in caplog.text
    assert (step.failed, step.gave_up) == (True, False)
    assert step("b") == ("plain", "b"), "not before it is due"
    device.now += 1
    assert step("c") == ("captured", "c")
    assert (step.failures, step.failed) == (1, False)


@pytest.mark.parametrize("outcome", ["refuse", "break"])
def test_it_gives_up_when_the_budget_is_spent(outcome: str) -> None:
    device = _Device(*[outcome] * 3)
    step = device.step(attempts=3)
    for _ in range(20):
        assert step() == ("plain",)
        device.now += 1000
    assert (step.failures, step.failed, step.gave_up) == (3, True, True)
    assert device.script == []


def test_a_graph_that_breaks_later_is_captured_again() -> None:
    works = True

    def executable(*arguments: Any) -> Any:
        if not works:
            raise CaptureFailed("the graph is gone")
        return _captured(*arguments)

    device = _Device()
    step = CapturedStep("decode 8", _plain, lambda: executable, Backoff(lambda: device.now))
    assert step(1) == ("captured", 1)
    works = False
    assert step(2) == ("plain", 2)
    assert step.failed
    works, device.now = True, 1.0
    assert step(3) == ("captured", 3)
    assert (step.captures, step.failures) == (2, 1)
