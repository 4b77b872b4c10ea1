"""The generations behind the choices of one request (reference, `n` and `n_status`)."""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

from pantheon.engine import (
    Completion,
    Engine,
    EngineError,
    Event,
    Failed,
    Finished,
    ServerBusy,
    ServerMemoryConstrained,
    ServerShuttingDown,
)
from pantheon.generated.models import ChoiceCountStatus
from pantheon.handlers.chat_request import ChatRequest

_NO_PLACE: Final = (ServerBusy, ServerMemoryConstrained, ServerShuttingDown)

_log: Final = logging.getLogger(__name__)


class Choice:
    """One choice that has a decode row, and how it ended.

    Attributes:
        index: its number among those asked for, from 0.
        finished: its end, when it came to one.
        failure: what it failed of, if it did.
    """

    def __init__(self, index: int, completion: Completion) -> None:
        self.index = index
        self.finished: Finished | None = None
        self.failure: str | None = None
        self._completion = completion

    def next_event(self, timeout: float) -> Event | None:
        """Wait up to `timeout` seconds for what comes next. A defect fails the choice."""
        try:
            event = self._completion.next_event(timeout)
        except Exception:
            self.failure = "internal error"
            self._completion.cancel()
            raise
        match event:
            case Finished():
                self.finished = event
            case Failed(message):
                self.failure = message
                _log.warning("choice %d: the generation failed: %s", self.index, message)
        return event

    @property
    def has_ended(self) -> bool:
        """Whether nothing more comes."""
        return self.finished is not None or self.failure is not None

    def cancel(self) -> None:
        """End the generation if it has not ended."""
        if not self.has_ended:
            self._completion.cancel()


class Choices:
    """All choices of a request, each a generation of its own; they are answered in order."""

    def __init__(self, engine: Engine, chat: ChatRequest) -> None:
        """Submit every choice.

        Raises:
            EngineError: the engine refused the first one, or another for a reason that is not
                want of a place. Nothing keeps running then.
        """
        self._is_capped = chat.is_capped
        self._waiting: deque[tuple[int, Completion]] = deque()
        self._started: list[Choice] = []
        self._lacked_place = False
        try:
            for index, request in enumerate(chat.completions):
                self._waiting.append((index, engine.submit(request)))
        except EngineError as error:
            if not self._waiting or not isinstance(error, _NO_PLACE):
                self.close()
                raise
            self._lacked_place = True
        self.model_id = self._waiting[0][1].model_id

    @property
    def has_waiting(self) -> bool:
        """Whether there are choices that have no row yet."""
        return bool(self._waiting)

    def poll(self, timeout: float) -> Choice | None:
        """Wait up to `timeout` seconds for the next choice's row; None when it did not get one.

        A later choice that is refused in the queue is left out and no longer waits.

        Raises:
            EngineError: the first choice was refused.
        """
        index, completion = self._waiting[0]
        try:
            if not completion.wait_admitted(timeout):
                return None
        except EngineError:
            self._waiting.popleft()
            if not self._started:
                raise
            self._lacked_place = True
            return None
        self._waiting.popleft()
        choice = Choice(index, completion)
        self._started.append(choice)
        return choice

    @property
    def finished(self) -> list[Finished]:
        """The ends of those that came to one, in order."""
        return [choice.finished for choice in self._started if choice.finished is not None]

    @property
    def failures(self) -> list[str]:
        """What choices failed of, in order."""
        return [choice.failure for choice in self._started if choice.failure is not None]

    @property
    def count_status(self) -> ChoiceCountStatus | None:
        """Why fewer choices came back than were asked for, as far as it is known by now."""
        if self.finished and self.failures:
            return "partial_generation_failed"
        if self._lacked_place:
            return "partial_slot_unavailable"
        return "capped_to_8" if self._is_capped else None

    def close(self) -> None:
        """End every generation that has not ended. Idempotent."""
        for choice in self._started:
            choice.cancel()
        while self._waiting:
            self._waiting.popleft()[1].cancel()
