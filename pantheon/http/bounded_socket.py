"""A client's socket on which no wait is endless."""

from __future__ import annotations

import select
import socket
import time
from typing import Final

_GONE: Final = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR


class RequestTooSlow(TimeoutError):
    """The client did not finish sending its request in time."""


class BoundedSocket:
    """The part of a socket that gunicorn uses to serve a request, with time limits.

    Receiving has one deadline for the whole request, sending a limit on each wait for the client
    to take more bytes.
    """

    def __init__(self, sock: socket.socket, receive_deadline: float, send_timeout: float) -> None:
        self._sock = sock
        self._receive_deadline = receive_deadline
        self._send_timeout = send_timeout

    def fileno(self) -> int:
        """The descriptor, -1 once closed."""
        return self._sock.fileno()

    def recv(self, size: int) -> bytes:
        """Up to `size` bytes of the request; empty at the end of the stream.

        Raises:
            RequestTooSlow: the request's deadline passed.
        """
        remaining = self._receive_deadline - time.monotonic()
        if remaining <= 0:
            raise RequestTooSlow
        self._sock.settimeout(remaining)
        try:
            return self._sock.recv(size)
        except TimeoutError:
            raise RequestTooSlow from None

    def send(self, data: bytes) -> int:
        """Send some of `data`; the number of bytes that the client's side took.

        Raises:
            TimeoutError: it took none within the limit.
        """
        self._sock.settimeout(self._send_timeout)
        return self._sock.send(data)

    def sendall(self, data: bytes) -> None:
        """Send all of `data`, however long it takes, as long as some bytes go each time."""
        view = memoryview(data)
        self._sock.settimeout(self._send_timeout)
        while view:
            view = view[self._sock.send(view) :]

    def shutdown(self, how: int) -> None:
        """End one direction (gunicorn ends a response that broke off this way)."""
        self._sock.shutdown(how)

    def settimeout(self, timeout: float | None) -> None:
        """Accepted and ignored: the limits are this class's."""

    def close(self) -> None:
        """Close the connection at once. Idempotent."""
        self._sock.close()


def peer_is_gone(descriptor: int) -> bool:
    """Whether the other side has closed its end or reset the connection.

    Asked of the kernel's connection state and not by peeking at bytes, which would be misled by
    bytes sent behind the request. A client that half-closes counts as gone, as it does to
    common proxies: its close looks the same until something is written.
    """
    if descriptor < 0:
        return True
    poller = select.poll()
    poller.register(descriptor, _GONE)
    return bool(poller.poll(0))
