"""How long the server waits, for a client and for its own end."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Times in seconds.

    Attributes:
        head_timeout: from the connection to the end of the request's head.
        body_timeout: from the end of the head to the end of the body.
        send_timeout: for the client to take more bytes of its response.
        drain_timeout: from the signal to stop, for answers that are running.
    """

    head_timeout: float
    body_timeout: float
    send_timeout: float
    drain_timeout: float
