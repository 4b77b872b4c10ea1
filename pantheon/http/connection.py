"""One client's connection, from its first byte to its close."""

from __future__ import annotations

import socket
from typing import Any

from pantheon.http.bounded_socket import BoundedSocket
from pantheon.http.intake import Intake


class Connection:
    """One client: sending its request, being served, or about to close.

    Attributes:
        expects_continue: whether the client wants to be told to send its body.
        closing_until: monotonic time in seconds of its end, once it has been answered.
        deadline: monotonic time in seconds at which waiting for the client ends.
    """

    def __init__(self, sock: socket.socket, client: Any, server: Any, intake: Intake) -> None:
        self.sock = sock
        self.client = client
        self.server = server
        self.intake = intake
        self.expects_continue = False
        self.closing_until: float | None = None

    @property
    def deadline(self) -> float:
        return self.intake.deadline if self.closing_until is None else self.closing_until


class GunicornConnection:
    """What gunicorn's `handle_request` reads of a connection."""

    def __init__(self, sock: BoundedSocket, connection: Connection) -> None:
        self.sock = sock
        self.client = connection.client
        self.server = connection.server
