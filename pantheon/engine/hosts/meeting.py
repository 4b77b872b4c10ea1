"""Who comes to the port of the followers: each of them once, whoever else comes too."""

from __future__ import annotations

import contextlib
import logging
import queue
import socket
import threading
import time
from typing import Final

from pantheon.engine.hosts.channel import Channel, ChannelClosed
from pantheon.engine.hosts.messages import FromFollower, Hello

_log = logging.getLogger(__name__)

_HELLO_S: Final = 5.0
"""Longest time from a connection to a whole hello, which a follower says at once."""

_MOST_HELLO_BYTES: Final = 1 << 16
_MOST_UNKNOWN: Final = 64
"""Connections that have not said who they are; others wait until one of them has or is dropped."""

_LOOK_S: Final = 0.1

_Met = tuple[Channel[FromFollower], Hello]


def await_followers(
    server: socket.socket, processes: int, build: str, within: float, hello_s: float = _HELLO_S
) -> list[_Met]:
    """Accept until every follower has said hello; what is no follower is dropped.

    Args:
        server: listens.
        processes: of the server, with this one.
        within: seconds for all of them.
        hello_s: seconds for a connection to say who it is.

    Raises:
        TimeoutError: some did not come; which is the error's text.
        ChannelClosed: a follower is of another build, or its number is not to be expected.
    """
    deadline = time.monotonic() + within
    came: queue.SimpleQueue[_Met] = queue.SimpleQueue()
    unknown = threading.Semaphore(_MOST_UNKNOWN)
    met: dict[int, _Met] = {}
    server.settimeout(_LOOK_S)
    with contextlib.ExitStack() as undo:
        while len(met) < processes - 1:
            if time.monotonic() > deadline:
                missing = ", ".join(str(one) for one in range(1, processes) if one not in met)
                raise TimeoutError(f"not all came within {within:g} s: {missing} of {processes}")
            _accept(server, came, unknown, hello_s)
            while not came.empty():
                channel, hello = came.get()
                undo.callback(channel.close)
                _check(hello, met, processes, build)
                met[hello.process] = channel, hello
        undo.pop_all()
    return list(met.values())


def _accept(
    server: socket.socket,
    came: queue.SimpleQueue[_Met],
    unknown: threading.Semaphore,
    hello_s: float,
) -> None:
    """Let one more connection say who it is, if there is one."""
    if not unknown.acquire(timeout=_LOOK_S):
        return
    try:
        connection, address = server.accept()
    # Nobody came, or went again at once.
    except (TimeoutError, ConnectionAbortedError):
        unknown.release()
        return
    threading.Thread(
        target=_hear, args=(connection, str(address[0]), came, unknown, hello_s), daemon=True
    ).start()


def _hear(
    connection: socket.socket,
    address: str,
    came: queue.SimpleQueue[_Met],
    unknown: threading.Semaphore,
    hello_s: float,
) -> None:
    try:
        channel: Channel[FromFollower] = Channel(connection, FromFollower)
        # Whatever comes meanwhile, byte by byte.
        late = threading.Timer(hello_s, channel.close)
        late.daemon = True
        late.start()
        try:
            said = channel.receive(hello_s, _MOST_HELLO_BYTES)
        finally:
            late.cancel()
        if not isinstance(said, Hello):
            raise ChannelClosed("expected a follower's hello, got another message")
        came.put((channel, said))
    except (OSError, ChannelClosed) as error:
        connection.close()
        _log.warning("a connection from %s is no follower and was dropped: %s", address, error)
    finally:
        unknown.release()


def _check(hello: Hello, met: dict[int, _Met], processes: int, build: str) -> None:
    number = hello.process
    if not 0 < number < processes:
        raise ChannelClosed(f"expected a follower's number below {processes}, got {number}")
    if number in met:
        raise ChannelClosed(f"expected each process once, got {number} again")
    if hello.build != build:
        raise ChannelClosed(
            f"expected every process to be of build {build}, got {hello.build:.100} of process "
            f"{number}"
        )
