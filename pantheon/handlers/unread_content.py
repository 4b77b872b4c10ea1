"""One warning for each client whose message contents are read as empty."""

from __future__ import annotations

import logging
import threading
from typing import Final

MAX_CLIENTS: Final = 1024
"""Clients that are warned of; a table that is full says nothing more."""

_log: Final = logging.getLogger(__name__)


class UnreadContentWarnings:
    """Remembers which clients were warned of. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._warned: set[str] = set()

    def warn(self, client: str) -> None:
        """Log once that a client's content was lost, and what reads it."""
        with self._lock:
            if client in self._warned or len(self._warned) >= MAX_CLIENTS:
                return
            self._warned.add(client)
        _log.warning(
            "a message content that is no string was read as empty; PANTHEON_CONTENT_PARTS=1 "
            "reads arrays of text parts (said once for the client %r)",
            client,
        )
