"""Who comes while the first host waits for the others (README, several hosts)."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from pantheon.engine.hosts import Channel, ChannelClosed
from pantheon.engine.hosts.meeting import await_followers
from pantheon.engine.hosts.messages import FromLeader, Hello

_LIMIT_S = 60.0


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def _come(server: socket.socket, said: bytes | Hello) -> socket.socket:
    connection = socket.create_connection(server.getsockname())
    if isinstance(said, bytes):
        connection.sendall(said)
    else:
        Channel[FromLeader](connection, FromLeader).send(said)
    return connection


@pytest.mark.parametrize(
    "said",
    [b"", b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\4junk", b"\0\0\0\4\x81", b"\0\1\0\1"],
    ids=["silent", "http", "garbage", "half a message", "too long"],
)
def test_who_is_no_follower_is_dropped_and_the_others_are_met(
    server: socket.socket, said: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    strays = [_come(server, said) for _ in range(3)]
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(await_followers, server, 3, "build", _LIMIT_S, 0.5)
        for stray in strays:
            stray.settimeout(_LIMIT_S)
            with contextlib.suppress(ConnectionResetError):
                assert stray.recv(1) == b"", "it is dropped although nobody else came"
        followers = [_come(server, Hello(number, "build", (7,))) for number in (2, 1)]
        met = waiting.result(_LIMIT_S)
    assert sorted(hello.process for _, hello in met) == [1, 2]
    assert caplog.text.count("is no follower and was dropped") == 3
    for one in (*strays, *followers, *(channel for channel, _ in met)):
        one.close()


def test_silent_peers_do_not_hold_up_a_follower(server: socket.socket) -> None:
    silent = [_come(server, b"") for _ in range(3)]
    with _come(server, Hello(1, "build", ())):
        ((channel, hello),) = await_followers(server, 2, "build", _LIMIT_S, _LIMIT_S)
    assert hello == Hello(1, "build", ())
    for one in (*silent, channel):
        one.close()


def test_who_did_not_come_is_named(server: socket.socket) -> None:
    with (
        _come(server, Hello(1, "build", ())),
        pytest.raises(TimeoutError, match=r"not all came within 1 s: 2 of 3"),
    ):
        await_followers(server, 3, "build", 1)


@pytest.mark.parametrize(
    ("hello", "says"),
    [
        (Hello(1, "another", ()), "of build build, got another of process 1"),
        (Hello(0, "build", ()), "below 2, got 0"),
        (Hello(2, "build", ()), "below 2, got 2"),
    ],
)
def test_a_follower_that_does_not_belong_here_ends_the_start(
    server: socket.socket, hello: Hello, says: str
) -> None:
    with _come(server, hello), pytest.raises(ChannelClosed, match=says):
        await_followers(server, 2, "build", _LIMIT_S)
