"""A client's socket: what it gives at once, and waits that end."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from pantheon.http.bounded_socket import BoundedSocket, RequestIncomplete, peer_is_gone


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The server's and the client's end of a TCP connection."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as client,
    ):
        server, _ = listener.accept()
        with server:
            yield server, client


def test_receiving_gives_what_is_here_and_never_waits(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    server, client = pair
    bounded = BoundedSocket(server, bytearray(b"abcde"), 1.0)
    client.sendall(b"late")
    assert [bounded.recv(3), bounded.recv(3)] == [b"abc", b"de"]
    for _ in range(2):
        with pytest.raises(RequestIncomplete):
            bounded.recv(3)


def test_sending_ends_when_the_client_takes_nothing(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    server, _client = pair
    bounded = BoundedSocket(server, bytearray(), 0.2)
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        bounded.sendall(bytes(50_000_000))
    assert time.monotonic() - started < 5


def test_sending_goes_on_as_long_as_the_client_takes_some(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    server, client = pair
    size = 3_000_000
    received = 0

    def take_slowly() -> None:
        nonlocal received
        while received < size:
            received += len(client.recv(400_000))
            time.sleep(0.05)

    reader = threading.Thread(target=take_slowly)
    reader.start()
    BoundedSocket(server, bytearray(), 0.3).sendall(bytes(size))
    reader.join(20)
    assert received == size


def test_open_connection_is_not_gone(pair: tuple[socket.socket, socket.socket]) -> None:
    server, client = pair
    assert not peer_is_gone(server.fileno())
    client.sendall(b"pipelined")
    assert not peer_is_gone(server.fileno())


@pytest.mark.parametrize("pending", [b"", b"pipelined"], ids=["nothing unread", "bytes unread"])
@pytest.mark.parametrize("leave", ["close", "reset", "half"])
def test_closed_connection_is_gone(
    pair: tuple[socket.socket, socket.socket], leave: str, pending: bytes
) -> None:
    server, client = pair
    if pending:
        client.sendall(pending)
    match leave:
        case "close":
            client.close()
        case "reset":
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
        case "half":
            client.shutdown(socket.SHUT_WR)
    deadline = time.monotonic() + 2
    while not peer_is_gone(server.fileno()):
        assert time.monotonic() < deadline


def test_closed_descriptor_is_gone(pair: tuple[socket.socket, socket.socket]) -> None:
    server, _client = pair
    server.close()
    assert peer_is_gone(server.fileno())
