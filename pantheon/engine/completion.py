"""The two ends of a generation: the engine thread puts events in, a handler takes them out."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from pantheon.engine.errors import EngineError
from pantheon.engine.events import Event


class EventStream:
    """A generation as its handler sees it; implements `pantheon.engine.face.Completion`.

    The engine thread calls `admit`, `refuse` and `put`; the handler's thread everything else.
    """

    def __init__(self, model_id: str, cancel: Callable[[], None]) -> None:
        """Start with nothing said.

        Args:
            cancel: ends the generation; called at most once.
        """
        self._model_id = model_id
        self._cancel = cancel
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._decided = threading.Event()
        self._refusal: EngineError | None = None
        self._once = threading.Lock()
        self._cancelled = False

    @property
    def model_id(self) -> str:
        """The served name of the model that generates."""
        return self._model_id

    def admit(self) -> None:
        """Say that the generation has a decode row."""
        self._decided.set()

    def refuse(self, error: EngineError) -> None:
        """Say that the generation will not start."""
        self._refusal = error
        self._decided.set()

    def put(self, event: Event) -> None:
        """Say what happened next."""
        self._events.put(event)

    def wait_admitted(self, timeout: float) -> bool:
        """See `Completion.wait_admitted`."""
        if not self._decided.wait(timeout):
            return False
        if self._refusal is not None:
            raise self._refusal
        return True

    def next_event(self, timeout: float) -> Event | None:
        """See `Completion.next_event`."""
        try:
            return self._events.get(timeout=timeout)
        except queue.Empty:
            return None

    def cancel(self) -> None:
        """See `Completion.cancel`."""
        with self._once:
            if self._cancelled:
                return
            self._cancelled = True
        self._cancel()
