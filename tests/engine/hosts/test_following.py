"""What a follower does with the steps that it is told, and what it is not told."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from pantheon.engine.hosts import Channel
from pantheon.engine.hosts.follower import _step, _StepLost
from pantheon.engine.hosts.leading_runner import _with_little_bias
from pantheon.engine.hosts.messages import CopyPage, FromFollower, FromLeader, Reset, StepFailed
from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.runner import Runner

_SOON = 10.0


class _Failing(Runner):
    """Writes down what it is asked; so many times the copy of a page raises."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.asked: list[str] = []

    def reset(self) -> None:
        self.asked.append("reset")

    def copy_page(self, source: int, target: int) -> None:
        self.asked.append("copy")
        if self.failures:
            self.failures -= 1
            raise RuntimeError("injected")


@pytest.fixture
def sides() -> Iterator[tuple[Channel[FromFollower], Channel[FromLeader]]]:
    """The first host's side and a follower's."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    with near, far:
        yield Channel(near, FromFollower), Channel(far, FromLeader)


def test_a_step_that_fails_is_told_once_and_dispatched_with_empty_states(
    sides: tuple[Channel[FromFollower], Channel[FromLeader]],
) -> None:
    """ARCHITECTURE, several hosts: the first host's half of the step waits for this one."""
    leader, follower = sides
    failed: set[int] = set()
    for failures in (1, 1):
        runner = _Failing(failures)
        _step(follower, runner, CopyPage(3, 0, 1), failed)
        assert runner.asked == ["copy", "reset", "copy"]
    _step(follower, runner, Reset(3), failed)
    _step(follower, _Failing(1), CopyPage(3, 0, 1), failed)
    follower.close()
    told = StepFailed(3, "CopyPage: RuntimeError: injected")
    assert [leader.receive(_SOON), leader.receive(_SOON)] == [told, told], "again after a reset"


def test_a_step_that_fails_with_empty_states_too_ends_the_follower(
    sides: tuple[Channel[FromFollower], Channel[FromLeader]],
) -> None:
    with pytest.raises(_StepLost, match="model 3 can't be kept in step: CopyPage: RuntimeError"):
        _step(sides[1], _Failing(2), CopyPage(3, 0, 1), set())


def test_a_decode_step_brings_no_biases_but_that_there_are_some() -> None:
    """`StartRow` brought them; a bias may be of every token, in every step."""
    biased = RowSampling(0.5, 0.9, 40, 7, 0.1, 0.2, ((3, -1.0), (4, 2.0), (5, 1.0)), 5)
    assert _with_little_bias(biased) == RowSampling(0.5, 0.9, 40, 7, 0.1, 0.2, ((3, -1.0),), 5)
    plain = RowSampling(0.5, 0.9, 40, 7)
    assert _with_little_bias(plain) is plain
