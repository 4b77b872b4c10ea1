"""A client's socket on which a thread never waits for a request, and for nothing without end."""

from __future__ import annotations

import select
import socket
from typing import Final

_GONE: Final = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR


class RequestIncomplete(Exception):
    """More of the request was asked for than is here."""


class BoundedSocket:
    """The part of a socket that gunicorn uses to serve a request.

    Receiving gives what has been received before, sending has a limit on each wait for the client
    to take more bytes.
    """

    def __init__(self, sock: socket.socket, received: bytearray, send_timeout: float) -> None:
        """Serve on `sock`, whose request is `received`; that must not change meanwhile.

        Args:
            sock: the connection.
            received: what has been read of it.
            send_timeout: seconds.
        """
        self._sock = sock
        self._received = received
        self._position = 0
        self._send_timeout = send_timeout

    def fileno(self) -> int:
        """The descriptor, -1 once closed."""
        return self._sock.fileno()

    def recv(self, size: int) -> bytes:
        """The next bytes of the request, `size` at most.

        Raises:
            RequestIncomplete: all have been given.
        """
        part = bytes(self._received[self._position : self._position + size])
        if not part:
            raise RequestIncomplete
        self._position += len(part)
        if self._position == len(self._received):
            # The response may take long, and nobody needs these bytes any more.
            self._received, self._position = bytearray(), 0
        return part

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
