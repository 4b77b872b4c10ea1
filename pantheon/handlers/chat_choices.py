"""The generations behind the choices of one request (reference, `n` and `n_status`)."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from typing import Final

from pantheon.engine import (
    Completion,
    Engine,
    EngineError,
    Event,
    Failed,
    Finished,
    GenerationFailed,
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
        self.failure: EngineError | None = None
        self._completion = completion

    def next_event(self, timeout: float) -> Event | None:
        """Wait up to `timeout` seconds for what comes next. A defect fails the choice."""
        try:
            event = self._completion.next_event(timeout)
        except Exception:
            self.failure = GenerationFailed("internal error")
            self._completion.cancel()
            raise
        match event:
            case Finished():
                self.finished = event
            case Failed(message, shutting_down):
                kind = ServerShuttingDown if shutting_down else GenerationFailed
                self.failure = kind(message)
                _log.warning("choice %d: the generation failed: %s", self.index, message)
        return event

    @property
    def has_ended(self) -> bool:
        """Whether nothing more comes."""
        return self.finished is not None or self.failure is not None

    def cancel(self) -> None:
        """End the generation if it has not ended; its row is free. Idempotent."""
        self._completion.cancel()


@dataclass(frozen=True, slots=True)
class _Queued:
    """A choice that the engine has accepted and that has no row as far as is known.

    Attributes:
        index: its number among those asked for, from 0.
        completion: its generation.
        is_alone: whether no other choice was unfinished when it was submitted.
    """

    index: int
    completion: Completion
    is_alone: bool


class Choices:
    """All choices of a request, each a generation of its own; they are answered in order.

    As many are submitted as the engine accepts. The places that the others lack may be those of
    their own siblings, so they are submitted again whenever one of these has ended. A refusal is
    the last word only where no sibling was unfinished; it then holds for all that follow.
    """

    def __init__(self, engine: Engine, chat: ChatRequest) -> None:
        """Submit the choices.

        Raises:
            EngineError: the engine refused the first one, or another for a reason that is not
                want of a place. Nothing keeps running then, nor after any other exception.
        """
        self._engine = engine
        self._requests = chat.completions
        self._is_capped = chat.is_capped
        self._submit_next = 0
        self._queued: deque[_Queued] = deque()
        self._started: list[Choice] = []
        self._ends_seen = 0
        self._lacked_place = False
        try:
            self._submit()
        # Whatever it is: the caller gets no object by which to end what runs already.
        except BaseException:
            self.close()
            raise
        self.model_id = self._queued[0].completion.model_id

    @property
    def has_waiting(self) -> bool:
        """Whether there are choices that have no row yet."""
        return bool(self._queued) or self._submit_next < len(self._requests)

    def poll(self, timeout: float) -> Choice | None:
        """Wait up to `timeout` seconds for the next choice's row; None when it did not get one.

        To be called when every choice that was returned before has ended.

        Raises:
            EngineError: the first choice was refused.
        """
        if self._ends_seen < len(self._started):
            self._ends_seen = len(self._started)
            # The end may be told before the row is free.
            self._started[-1].cancel()
            self._submit()
        if not self._queued:
            return None
        head = self._queued[0]
        try:
            if not head.completion.wait_admitted(timeout):
                return None
        except EngineError as error:
            self._queued.popleft()
            if not self._started:
                raise
            # What is queued behind it would now be ahead of it.
            self._cancel_queued()
            if isinstance(error, ServerBusy) and not head.is_alone:
                self._submit_next = head.index
                self._submit()
            else:
                self._leave_out_rest()
            return None
        self._queued.popleft()
        choice = Choice(head.index, head.completion)
        self._started.append(choice)
        return choice

    def _submit(self) -> None:
        """Submit in order what has not been, up to the first that is refused."""
        while self._submit_next < len(self._requests):
            is_alone = not self._queued and all(choice.has_ended for choice in self._started)
            try:
                completion = self._engine.submit(self._requests[self._submit_next])
            except EngineError as error:
                if self._submit_next == 0:
                    raise
                # Once a choice has started, the request can no longer be refused.
                if not self._started and not isinstance(error, _NO_PLACE):
                    raise
                if is_alone or not isinstance(error, ServerBusy):
                    self._leave_out_rest()
                return
            self._queued.append(_Queued(self._submit_next, completion, is_alone))
            self._submit_next += 1

    def _leave_out_rest(self) -> None:
        self._lacked_place = True
        self._submit_next = len(self._requests)

    def _cancel_queued(self) -> None:
        while self._queued:
            self._queued.popleft().completion.cancel()

    @property
    def finished(self) -> list[Finished]:
        """The ends of those that came to one, in order."""
        return [choice.finished for choice in self._started if choice.finished is not None]

    @property
    def failures(self) -> list[EngineError]:
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
        self._cancel_queued()
        self._submit_next = len(self._requests)
