"""Connections while no thread serves them: before their request is here and after the answer."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable
from typing import Any, Final

from pantheon.http.connection import Connection, Wait
from pantheon.http.connection_table import ConnectionTable
from pantheon.http.errors import ErrorAnswer
from pantheon.http.intake import READ_AHEAD, Intake
from pantheon.http.limits import ConnectionLimits
from pantheon.http.protocol_errors import (
    SHUTTING_DOWN,
    TOO_MANY_BODIES,
    TOO_MANY_CONNECTIONS,
    TOO_SLOW,
    raw_response,
)

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_LARGE_REQUESTS_BYTES: Final = 256 * 1024 * 1024
"""Most bytes of requests over READ_AHEAD that no thread has taken, beside one at its limit."""

_LINGER_SECONDS: Final = 2.0

_log: Final = logging.getLogger(__name__)


class Reception:
    """Waits for clients, all at once and without threads. Used by the event loop alone."""

    def __init__(
        self,
        connections: ConnectionTable,
        limits: ConnectionLimits,
        serve: Callable[[Connection], None],
    ) -> None:
        """Receive into a table.

        Args:
            connections: all connections of the server.
            limits: how long a client may take.
            serve: gives a connection to a thread.
        """
        self._connections = connections
        self._limits = limits
        self._serve = serve

    def receive(self, sock: socket.socket, client: Any, server: Any) -> None:
        """Take in a new connection; a full table gives up the one that it can spare best."""
        if self._connections.is_full:
            self.give_up_one()
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        now = time.monotonic()
        intake = Intake(now, self._limits.head_timeout, self._limits.body_timeout)
        connection = Connection(sock, client, server, intake)
        self._connections.add(connection)
        self._connections.wait(connection, self._on_request, now)
        # Most have sent their request with their connection, and need not queue for a look.
        self._on_request(connection, sock)

    def give_up_one(self) -> bool:
        """Close the connection that can be spared best; False when all are being served."""
        connection = self._connections.dispensable(time.monotonic())
        if connection is None:
            return False
        # Without waiting for the client's end, for its place is wanted now.
        if connection.waits_for is not Wait.CLOSE and not connection.is_silent:
            _send(connection, TOO_MANY_CONNECTIONS)
        self._connections.close(connection)
        return True

    def await_body(self, connection: Connection, limit: int) -> None:
        """Wait for the rest of a body of which `limit` bytes are wanted at most."""
        connection.intake.body_limit = limit
        try:
            connection.sock.setblocking(False)
            if connection.expects_continue:
                connection.sock.send(_CONTINUE)
        except OSError as gone:
            _log.debug("the client left before its body: %s", gone)
            self._connections.close(connection)
            return
        self._connections.wait(connection, self._on_request, time.monotonic())

    def linger(self, connection: Connection) -> None:
        """Send the end, then wait for the client's.

        Closing on bytes that the client still sends would reset the connection, and the reset
        can overtake the response.
        """
        connection.intake.take()
        try:
            connection.sock.shutdown(socket.SHUT_WR)
            connection.sock.setblocking(False)
        except OSError:
            self._connections.close(connection)  # The client has closed already.
            return
        now = time.monotonic()
        connection.closing_until = now + _LINGER_SECONDS
        self._connections.wait(connection, self._on_farewell, now)

    def end_overdue(self) -> None:
        """End the connections whose client has let its deadline pass."""
        now = time.monotonic()
        for connection in self._connections.waiting:
            if now >= connection.deadline:
                self._end(connection, TOO_SLOW)

    def end_unfinished(self) -> None:
        """End the connections whose request is not here, since the server stops."""
        for connection in self._connections.waiting:
            if connection.waits_for is not Wait.CLOSE:
                self._end(connection, SHUTTING_DOWN)

    def _on_request(self, connection: Connection, _sock: Any) -> None:
        try:
            data = connection.sock.recv(READ_AHEAD)
        except BlockingIOError:
            return
        except OSError:
            data = b""  # A reset is an end.
        if not data:
            self._connections.close(connection)
        elif connection.intake.feed(data, time.monotonic()):
            self._connections.take(connection)
            self._serve(connection)
        elif self._exceeds_memory(connection.intake):
            self._refuse(connection, TOO_MANY_BODIES)

    def _on_farewell(self, connection: Connection, _sock: Any) -> None:
        try:
            data = connection.sock.recv(READ_AHEAD)
        except BlockingIOError:
            return
        except OSError:
            data = b""  # A reset is an end.
        if not data:
            self._connections.close(connection)

    def _exceeds_memory(self, intake: Intake) -> bool:
        """Whether a large request must go, because such requests together are too large."""
        if intake.body_limit is None or len(intake.buffer) <= READ_AHEAD:
            return False
        large = self._connections.buffered(above=READ_AHEAD)
        return large > _LARGE_REQUESTS_BYTES + intake.body_limit

    def _end(self, connection: Connection, answer: ErrorAnswer) -> None:
        """Answer a client that has begun a request; close on one that has not."""
        if connection.waits_for is Wait.CLOSE or connection.is_silent:
            self._connections.close(connection)
        else:
            self._refuse(connection, answer)

    def _refuse(self, connection: Connection, answer: ErrorAnswer) -> None:
        self._connections.take(connection)
        _send(connection, answer)
        self.linger(connection)


def _send(connection: Connection, answer: ErrorAnswer) -> None:
    try:
        connection.sock.send(raw_response(answer))
    except OSError as gone:
        _log.debug("the client did not take its error: %s", gone)
