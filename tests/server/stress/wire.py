"""One request, sent to its end or broken off somewhere on the way."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.server.process import Server
from tests.server.wire import Answer, connect, parse_answer, read_all, request_bytes

TIMEOUT_S = 120.0
"""Longer than any request here takes; a hang is a failure."""

_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: the connection is reset instead of closed in order."""


@dataclass(frozen=True)
class Call:
    """A request and what must come back.

    Attributes:
        check: raises AssertionError for an answer that must not be.
    """

    kind: str
    data: bytes
    check: Callable[[Answer], None]


def call(
    kind: str, method: str, path: str, body: bytes | None, check: Callable[[Answer], None]
) -> Call:
    """A call of a route."""
    return Call(kind, request_bytes(method, path, body), check)


def complete(server: Server, one: Call) -> Answer:
    """Send a request, read its answer to the end and check it."""
    with connect(server, TIMEOUT_S) as sock:
        sock.sendall(one.data)
        answer = parse_answer(read_all(sock))
    one.check(answer)
    return answer


def break_off(server: Server, one: Call, random: Random) -> str:
    """Send a request and leave at a random moment; the name of the moment."""
    moment = random.choice(list(_MOMENTS))
    with connect(server, TIMEOUT_S) as sock:
        _MOMENTS[moment](sock, one.data, random)
        if random.random() < 0.5:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    return moment


def _in_the_head(sock: socket.socket, data: bytes, random: Random) -> None:
    sock.sendall(data[: random.randrange(data.index(b"\r\n\r\n"))])


def _in_the_body(sock: socket.socket, data: bytes, random: Random) -> None:
    head = data.index(b"\r\n\r\n") + 4
    sock.sendall(data[: random.randint(head, max(head, len(data) - 1))])


def _at_once(sock: socket.socket, data: bytes, random: Random) -> None:
    sock.sendall(data)


def _queued_or_in_prefill(sock: socket.socket, data: bytes, random: Random) -> None:
    sock.sendall(data)
    time.sleep(random.uniform(0.0, 0.06))


def _after_the_head(sock: socket.socket, data: bytes, random: Random) -> None:
    sock.sendall(data)
    sock.recv(1)


def _in_the_answer(sock: socket.socket, data: bytes, random: Random) -> None:
    sock.sendall(data)
    wanted = random.randint(200, 4000)
    while wanted > 0 and (part := sock.recv(wanted)):
        wanted -= len(part)


_MOMENTS: dict[str, Callable[[socket.socket, bytes, Random], None]] = {
    "in the head": _in_the_head,
    "in the body": _in_the_body,
    "at once": _at_once,
    "queued or in prefill": _queued_or_in_prefill,
    "after the head": _after_the_head,
    "in the answer": _in_the_answer,
}
