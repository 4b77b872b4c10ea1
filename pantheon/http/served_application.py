"""What the worker needs of the application that it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, runtime_checkable

from pantheon.http.limits import ConnectionLimits


@runtime_checkable
class ServedApplication(Protocol):
    """A WSGI application that knows its limits and when it starts and ends."""

    limits: ConnectionLimits

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """Answer one request (PEP 3333)."""
        ...

    def ready(self, url: str) -> None:
        """Called once, when requests are about to be accepted at `url`."""
        ...

    def drain(self) -> None:
        """Called once, when the server is told to stop: start nothing new, end what only waits."""
        ...

    @property
    def idle(self) -> bool:
        """Whether nothing is left to wait for, once it drains."""
        ...

    def close(self) -> None:
        """Called once, when no request is served any more or none may go on."""
        ...
