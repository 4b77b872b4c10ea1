"""One client's connection, from its first byte to its close."""

from __future__ import annotations

import socket
from enum import IntEnum
from typing import Any

from pantheon.http.bounded_socket import BoundedSocket
from pantheon.http.intake import Intake


class Wait(IntEnum):
    """What a connection waits for from its client; what is worth least comes first."""

    HEAD = 0
    CLOSE = 1
    BODY = 2


class Connection:
    """One client: sending its request, being served, or about to close.

    Attributes:
        expects_continue: whether the client wants to be told to send its body.
        waiting_since: monotonic time in seconds since when it waits for its client.
        closing_until: monotonic time in seconds of its end, once it has been answered.
    """

    def __init__(self, sock: socket.socket, client: Any, server: Any, intake: Intake) -> None:
        self.sock = sock
        self.client = client
        self.server = server
        self.intake = intake
        self.expects_continue = False
        self.waiting_since = 0.0
        self.closing_until: float | None = None

    @property
    def deadline(self) -> float:
        """Monotonic time in seconds at which waiting for the client ends."""
        return self.intake.deadline if self.closing_until is None else self.closing_until

    @property
    def waits_for(self) -> Wait:
        """What the client is to do next. Means something only while nobody serves it."""
        if self.closing_until is not None:
            return Wait.CLOSE
        return Wait.HEAD if self.intake.body_limit is None else Wait.BODY

    @property
    def is_silent(self) -> bool:
        """Whether the client has not begun a request."""
        return self.waits_for is Wait.HEAD and not self.intake.buffer


class GunicornConnection:
    """What gunicorn's `handle_request` reads of a connection."""

    def __init__(self, sock: BoundedSocket, connection: Connection) -> None:
        self.sock = sock
        self.client = connection.client
        self.server = connection.server
