"""A follower that is there and says nothing, and one that says that a step failed."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from pantheon.engine.errors import ServerShuttingDown
from pantheon.engine.hosts import Channel, HostGroup, HostLost, follow
from pantheon.engine.hosts.messages import (
    Beat,
    Close,
    CopyPage,
    FromFollower,
    FromLeader,
    Reset,
    StepFailed,
    WritePage,
)

_SOON = 30.0

_Sides = tuple[Channel[FromFollower], Channel[FromLeader]]


@pytest.fixture
def sides() -> Iterator[_Sides]:
    """The first host's side and a follower's."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    with near, far:
        yield Channel(near, FromFollower), Channel(far, FromLeader)


def test_a_follower_that_stands_still_is_gone_and_all_waits_end(sides: _Sides) -> None:
    leader, _ = sides
    told = threading.Event()
    group = HostGroup({1: leader}, [], silence_s=0.5)
    group.when_lost(1, lambda why: told.set())
    with pytest.raises(HostLost, match="host 1 is gone"):
        group.wait_ready(1)
    assert told.wait(_SOON)
    with pytest.raises(HostLost, match="host 1 is gone"):
        group.tell(Close(1))


def test_a_follower_that_computes_says_that_it_is_alive(sides: _Sides) -> None:
    leader, follower = sides
    with ThreadPoolExecutor(1) as threads:
        following = threads.submit(follow, follower)
        assert [leader.receive(_SOON), leader.receive(_SOON)] == [Beat(), Beat()]
        leader.close()
        assert "ended" in following.result(_SOON)


def test_a_follower_that_takes_nothing_is_waited_for_while_it_says_that_it_is_alive(
    sides: _Sides,
) -> None:
    """README, several hosts: "While a model is loaded over several hosts, others over several
    hosts wait for it". It takes no pages meanwhile, and the system holds only so many."""
    leader, follower = sides
    group = HostGroup({1: leader}, [], silence_s=2.0)
    page = (bytes(4 << 20),)

    def tell_pages() -> None:
        for number in range(64):
            group.tell(WritePage(1, number, page))

    with ThreadPoolExecutor(1) as threads:
        telling = threads.submit(tell_pages)
        for _ in range(40):
            follower.send(Beat())
            assert not wait([telling], timeout=0.1).done
        assert group.lost is None
        with pytest.raises(HostLost, match="host 1 is gone"):
            telling.result(_SOON)


def test_draining_ends_the_wait_for_a_load(sides: _Sides) -> None:
    group = HostGroup({1: sides[0]}, [])
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(group.wait_ready, 1)
        group.drain()
        with pytest.raises(ServerShuttingDown):
            waiting.result(_SOON)
    group.close()


def test_who_waits_to_tell_is_woken_when_a_follower_goes(sides: _Sides) -> None:
    """A step that never ends may hold all others off."""
    leader, follower = sides
    group = HostGroup({1: leader}, [])
    with group.telling(CopyPage(1, 0, 1)), ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(group.tell, CopyPage(2, 0, 1))
        follower.close()
        with pytest.raises(HostLost, match="host 1 is gone"):
            waiting.result(_SOON)


def test_a_step_that_failed_on_a_follower_ends_those_of_its_model_until_it_is_reset(
    sides: _Sides, caplog: pytest.LogCaptureFixture
) -> None:
    leader, follower = sides
    group = HostGroup({1: leader}, [])
    follower.send(StepFailed(3, "Decode: RuntimeError: injected"))
    heard = threading.Event()
    while True:
        try:
            group.check_steps(3)
        except HostLost as error:
            assert str(error) == "host 1: Decode: RuntimeError: injected"
            break
        assert not heard.wait(0.01)
    assert "a step of model 3 failed on host 1: Decode: RuntimeError: injected" in caplog.text
    with pytest.raises(HostLost, match="injected"):
        group.tell(CopyPage(3, 0, 1))
    group.tell(CopyPage(4, 0, 1))
    assert group.lost is None, "the follower and other models go on"
    group.tell(Reset(3))
    group.tell(CopyPage(3, 0, 2))
    expected = [CopyPage(4, 0, 1), Reset(3), CopyPage(3, 0, 2)]
    assert [follower.receive(_SOON) for _ in expected] == expected
    group.close()
