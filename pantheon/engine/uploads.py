"""One upload of a model at a time (reference, `POST /admin/models/load`)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from pantheon.engine.errors import ServerShuttingDown


class Uploads:
    """A lock that is handed on in the order of asking and that a shutdown breaks."""

    def __init__(self) -> None:
        """Start with nobody uploading."""
        self._changed = threading.Condition()
        self._turns: deque[object] = deque()
        """Whose turn it is first, then who waits."""
        self._aborted = False

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for the uploads before this one, then hold the others off.

        Raises:
            ServerShuttingDown: `abort` was called, before or during the wait.
        """
        mine = object()
        with self._changed:
            self._turns.append(mine)
            self._changed.wait_for(lambda: self._aborted or self._turns[0] is mine)
        try:
            self.check()
            yield
        finally:
            self._leave(mine)

    @contextmanager
    def turn_if_free(self) -> Iterator[bool]:
        """Take a turn only where nobody has one or waits; whether it was taken."""
        mine = object()
        with self._changed:
            free = not self._turns
            if free:
                self._turns.append(mine)
        try:
            yield free
        finally:
            if free:
                self._leave(mine)

    def check(self) -> None:
        """Raise ServerShuttingDown once `abort` was called; an upload asks between its steps."""
        if self._aborted:
            raise ServerShuttingDown("the server is shutting down and loads no model")

    def abort(self) -> None:
        """End the waits, and the upload at its next `check`. Idempotent."""
        with self._changed:
            self._aborted = True
            self._changed.notify_all()

    def _leave(self, turn: object) -> None:
        with self._changed:
            self._turns.remove(turn)
            self._changed.notify_all()
