"""The generations of one model that run or wait, and how they leave."""

from __future__ import annotations

from pantheon.engine.errors import EngineError, ServerBusy
from pantheon.engine.events import Failed
from pantheon.engine.generation import Generation
from pantheon.engine.live_sessions import LiveSessions
from pantheon.engine.scheduler import QueueFull, Scheduler, Sequence

_RETRY_AFTER_S = 5
"""Seconds after which a refused client may try again: about the length of a short answer."""


class LiveGenerations:
    """By sequence. Everything here is done under the lock of the step loop.

    It owns what the scheduler and the sessions know of a generation: both hear of its end here.
    """

    def __init__(self, name: str, scheduler: Scheduler, sessions: LiveSessions) -> None:
        """None lives yet.

        Args:
            name: the model's, for refusals.
        """
        self._name = name
        self._scheduler = scheduler
        self._sessions = sessions
        self._generations: dict[Sequence, Generation] = {}

    def __len__(self) -> int:
        """How many run or wait."""
        return len(self._generations)

    def __getitem__(self, sequence: Sequence) -> Generation:
        """That of a sequence, which has not left."""
        return self._generations[sequence]

    def submit(self, generation: Generation) -> None:
        """Queue one; the session of its sequence is busy until its end.

        Raises:
            ServerBusy: no row is free and the queue is full.
        """
        sequence = generation.sequence
        try:
            self._scheduler.submit(sequence)
        except QueueFull:
            raise ServerBusy(
                f"every decode row of {self._name} is busy and its queue is full; retry later",
                _RETRY_AFTER_S,
            ) from None
        if sequence.session is not None:
            self._sessions.begin_turn(sequence.session)
        self._generations[sequence] = generation
        self.announce_admitted()

    def drop(
        self, sequence: Sequence, sampled: tuple[int, ...] | None = None, *, lost: bool = False
    ) -> None:
        """Take one out, if it is still there; see `Scheduler.finish`."""
        if self._generations.pop(sequence, None) is not None:
            self._scheduler.finish(sequence, sampled, lost=lost)
            if sequence.session is not None:
                self._sessions.end_turn(sequence.session)

    def announce_admitted(self) -> None:
        """Tell those that have a row by now."""
        for sequence, generation in self._generations.items():
            if sequence.row is not None:
                generation.stream.admit()

    def refuse_expired(self, now: float, wait_s: float) -> None:
        """Refuse what has waited for a row for longer than `wait_s` seconds."""
        for sequence in self._scheduler.expired(now - wait_s):
            self._generations[sequence].stream.refuse(
                ServerBusy(
                    f"no decode row of {self._name} became free within {wait_s:g} s; retry later",
                    _RETRY_AFTER_S,
                )
            )
            self.drop(sequence)

    def refuse_waiting(self, refusal: EngineError) -> None:
        """Refuse all that have no row."""
        for generation in self._with_row(False):
            generation.stream.refuse(refusal)
            self.drop(generation.sequence)

    def fail_running(self, end: Failed) -> None:
        """End all that have a row, and keep nothing of what they computed."""
        for generation in self._with_row(True):
            generation.stream.put(end)
            self.drop(generation.sequence, lost=True)

    def _with_row(self, admitted: bool) -> list[Generation]:
        """A list made now: dropping one generation may give its row to the next."""
        return [
            generation
            for sequence, generation in self._generations.items()
            if (sequence.row is not None) == admitted
        ]
