"""Messages over a TCP connection: each its length in four bytes, then msgpack."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import Any, Final, Generic, TypeVar

import msgspec

_LENGTH: Final = struct.Struct(">I")
_MOST_BYTES: Final = 1 << 30
"""Of one message: a page of the largest models is a few dozen megabytes."""

_Received = TypeVar("_Received")


class ChannelClosed(Exception):
    """The other side is gone, or says what it may not. `str(error)` tells which."""


class Channel(Generic[_Received]):
    """One side. Any thread may send, and one receives."""

    def __init__(self, connection: socket.socket, received: Any) -> None:
        """Take a connection over.

        Args:
            received: the type of what the other side may say.
        """
        self._socket = connection
        self._sending = threading.Lock()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A machine that is switched off sends no end: the system asks for it.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
            if hasattr(socket, name):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        connection.settimeout(None)
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder: msgspec.msgpack.Decoder[_Received] = msgspec.msgpack.Decoder(received)

    def send(self, message: object) -> None:
        """Send a message, however long the other side takes nothing: it may load a model. Who
        counts it as gone closes the channel, which ends the wait.

        Raises:
            ChannelClosed: see there.
        """
        data = self._encoder.encode(message)
        try:
            with self._sending:
                self._socket.sendall(_LENGTH.pack(len(data)) + data)
        except OSError as error:
            raise ChannelClosed(f"a message could not be sent: {error.strerror}") from error

    def receive(self, timeout: float | None = None, most_bytes: int = _MOST_BYTES) -> _Received:
        """Wait for a message, however long, or for so many seconds without a byte.

        Args:
            most_bytes: of a message; a longer one is not read.

        Raises:
            ChannelClosed: see there.
        """
        # By the system's own option: the socket's timeout would hold for a thread that sends too.
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _time_value(timeout))
        except OSError as error:
            raise ChannelClosed("the connection ended") from error
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size))
        if length > most_bytes:
            raise ChannelClosed(f"expected a message of at most {most_bytes} bytes, got {length}")
        try:
            return self._decoder.decode(self._read(length))
        except msgspec.MsgspecError as error:
            raise ChannelClosed(
                f"expected a message of this version, got another: {error}"
            ) from error

    def close(self) -> None:
        """End the connection, whoever waits at it. Idempotent."""
        # It may have ended from the other side already.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _read(self, count: int) -> bytearray:
        data = bytearray()
        while len(data) < count:
            try:
                piece = self._socket.recv(min(count - len(data), 1 << 20))
            except BlockingIOError as error:
                raise ChannelClosed("nothing came for too long") from error
            except OSError as error:
                raise ChannelClosed(f"nothing came: {error.strerror}") from error
            if not piece:
                raise ChannelClosed("the connection ended")
            data += piece
        return data


def _time_value(seconds: float | None) -> bytes:
    """A `struct timeval`; zeros, which are for ever, for None."""
    return struct.pack("ll", *divmod(round((seconds or 0) * 1_000_000), 1_000_000))
