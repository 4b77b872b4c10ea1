"""What comes over the network is hostile until it is a message."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pantheon.engine.hosts import Channel, ChannelClosed, HostGroup, HostLost, follow
from pantheon.engine.hosts.messages import (
    Close,
    CopyPage,
    Decode,
    FromFollower,
    FromLeader,
    Ready,
    Refused,
    StartRow,
)
from pantheon.engine.row_sampling import RowSampling

_SOON = 10.0


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    with near, far:
        yield near, far


def _sent(pair: tuple[socket.socket, socket.socket], data: bytes) -> Channel[FromLeader]:
    near, far = pair
    near.sendall(data)
    near.shutdown(socket.SHUT_WR)
    return Channel(far, FromLeader)


def _framed(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def test_a_message_arrives_as_it_was_sent(pair: tuple[socket.socket, socket.socket]) -> None:
    sampling = RowSampling(0.5, 0.9, 40, 2**64 - 1, 0.1, 0.2, ((3, -1.0),), 5)
    mask = np.asarray([0xFFFFFFFF, 5], np.uint32).tobytes()
    messages: list[FromLeader] = [
        StartRow(1, 2, sampling),
        Decode(
            1, (0, 1), (7, 8), ((1, 2), (3,)), (sampling,) * 2, (None, mask), (None, 4), ((0, 9),)
        ),
    ]
    near: Channel[FromFollower] = Channel(pair[0], FromFollower)
    far: Channel[FromLeader] = Channel(pair[1], FromLeader)
    for message in messages:
        near.send(message)
    assert [far.receive() for _ in messages] == messages


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "ended"),
        (b"\0\0", "ended"),
        (_framed(b"\x81"), "expected a message"),
        (_framed(b"")[:4], "expected a message"),
        (struct.pack(">I", 100) + b"short", "ended"),
        (struct.pack(">I", 0xFFFFFFFF), "at most"),
        (_framed(msgspec.msgpack.encode({"type": "Exec", "code": "1"})), "expected a message"),
        (_framed(msgspec.msgpack.encode({"type": "Close", "model": "1"})), "expected a message"),
        (_framed(msgspec.msgpack.encode({"type": "Close", "model": 1, "x": 1})), "expected"),
        (_framed(msgspec.msgpack.encode(Ready(1))), "expected a message"),
    ],
)
def test_what_is_no_message_ends_the_channel(
    pair: tuple[socket.socket, socket.socket], data: bytes, says: str
) -> None:
    with pytest.raises(ChannelClosed, match=says):
        _sent(pair, data).receive(_SOON)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_the_end_of_the_channel(data: bytes) -> None:
    near, far = socket.socketpair()
    decoder = msgspec.msgpack.Decoder(FromLeader)
    with near, far:
        try:
            decoder.decode(data)
        except msgspec.MsgspecError:
            pass
        else:
            assert data, "nothing is no message"


def test_a_silent_peer_is_waited_for_only_so_long(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    far: Channel[FromLeader] = Channel(pair[1], FromLeader)
    with pytest.raises(ChannelClosed, match="nothing came"):
        far.receive(1)


def test_a_follower_ends_on_a_step_of_a_model_that_it_has_not(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    data = _framed(msgspec.msgpack.encode(Close(9)))
    data += _framed(msgspec.msgpack.encode(CopyPage(9, 0, 1)))
    assert "model 9" in follow(_sent(pair, data))


def test_a_follower_that_goes_wakes_all_who_wait_and_refuses_what_comes(
    pair: tuple[socket.socket, socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    group = HostGroup({1: Channel(pair[0], FromFollower)}, [5, 5])
    follower: Channel[FromLeader] = Channel(pair[1], FromLeader)
    told: list[str] = []
    group.when_lost(1, told.append)
    group.when_lost(2, told.append)
    group.forget(2)
    assert follower.receive(_SOON) == Close(2)
    waiting = threading.Thread(target=lambda: told.append(_lost(lambda: group.wait_ready(1))))
    waiting.start()
    follower.close()
    waiting.join(_SOON)
    assert not waiting.is_alive()
    assert len(told) == 2 and all("host 1 is gone" in one for one in told)
    assert "host 1 is gone" in _lost(lambda: group.tell(Close(1)))
    group.when_lost(3, told.append)
    assert len(told) == 3, "who comes later is told at once"
    assert "models over several hosts end here" in caplog.text
    group.close()


def test_a_follower_that_refuses_says_why(pair: tuple[socket.socket, socket.socket]) -> None:
    group = HostGroup({1: Channel(pair[0], FromFollower)}, [])
    follower: Channel[FromLeader] = Channel(pair[1], FromLeader)
    follower.send(Ready(1))
    group.wait_ready(1)
    follower.send(Refused(1, "no such file"))
    assert _lost(lambda: group.wait_ready(1)) == "host 1: no such file"
    assert group.lost is None, "it is still there"
    group.close()


def _lost(call: object) -> str:
    with pytest.raises(HostLost) as lost:
        call()  # type: ignore[operator]
    return str(lost.value)
