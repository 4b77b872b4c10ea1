"""How long the server waits on a client."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Times in seconds.

    Attributes:
        head_timeout: from the connection to the end of the request's head.
        body_timeout: from the end of the head to the end of the body.
        send_timeout: for the client to take more bytes of its response.
    """

    head_timeout: float
    body_timeout: float
    send_timeout: float
