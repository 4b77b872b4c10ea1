"""All connections of a server, and those among them that wait for their client."""

from __future__ import annotations

import selectors
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from pantheon.http.connection import Connection

_GRACE_SECONDS: Final = 1.0


class ConnectionTable:
    """At most `limit` connections. Used by the event loop alone.

    A connection waits for its client, watched by the poller, or a thread serves it.
    """

    def __init__(self, poller: selectors.BaseSelector, limit: int) -> None:
        self._poller = poller
        self._limit = limit
        self._open: set[Connection] = set()
        # A dictionary for its order: who began to wait first comes first.
        self._waiting: dict[Connection, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    @property
    def is_full(self) -> bool:
        """Whether another connection has no place."""
        return len(self._open) >= self._limit

    @property
    def waiting(self) -> tuple[Connection, ...]:
        """Those that wait for their client, in the order in which they began to."""
        return tuple(self._waiting)

    @property
    def served(self) -> frozenset[Connection]:
        """Those that a thread serves, or will."""
        return frozenset(self._open.difference(self._waiting))

    @property
    def has_room(self) -> bool:
        """Whether a new connection finds a place, a free one or that of one that waits."""
        return not self.is_full or bool(self._waiting)

    def dispensable(self, now: float) -> Connection | None:
        """The one to give up when the table is full; None when all are being served.

        Those that have begun to wait just now are spared, for a client that means it sends its
        request at once. Of the others those that are worth the least (`Wait`), and of these the
        one that has waited longest.
        """
        recent = now - _GRACE_SECONDS
        return min(
            self._waiting,
            key=lambda connection: (connection.waiting_since > recent, connection.waits_for),
            default=None,
        )

    def buffered(self, above: int) -> int:
        """Bytes that clients have sent and no thread has taken, in buffers larger than `above`."""
        sizes = (len(connection.intake.buffer) for connection in self._open)
        return sum(size for size in sizes if size > above)

    def add(self, connection: Connection) -> None:
        """Take in a new connection, which nobody waits for yet."""
        self._open.add(connection)

    def wait(
        self, connection: Connection, readable: Callable[[Connection, Any], None], now: float
    ) -> None:
        """Call `readable` whenever there is something to read, until `take`."""
        connection.waiting_since = now
        self._waiting[connection] = None
        self._poller.register(connection.sock, selectors.EVENT_READ, partial(readable, connection))

    def take(self, connection: Connection) -> None:
        """Wait for the client no more."""
        del self._waiting[connection]
        self._poller.unregister(connection.sock)

    def close(self, connection: Connection) -> None:
        """Close a connection, waiting or not, and forget it."""
        if connection in self._waiting:
            self.take(connection)
        self._open.discard(connection)
        connection.sock.close()
