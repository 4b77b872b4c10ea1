"""The engine thread of one model: plan, dispatch, read, tell."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Listed
from dataclasses import dataclass
from typing import Protocol

from pantheon.engine.errors import ServerBusy, ServerShuttingDown
from pantheon.engine.events import Failed
from pantheon.engine.generation import Generation
from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.sampled_token import SampledToken
from pantheon.engine.scheduler import DecodeRow, PrefillChunk, QueueFull, Scheduler, Sequence
from pantheon.engine.token_mask import TokenMask

_log = logging.getLogger(__name__)

_RETRY_AFTER_S = 5
"""Seconds after which a refused client may try again: about the length of a short answer."""


class Tokens(Protocol):
    """Tokens that a dispatched step samples."""

    def read(self) -> list[SampledToken]:
        """Wait for them."""
        ...


class StepRunner(Protocol):
    """What the loop needs of a runner; `Runner` is the real one."""

    def start_row(self, row: int, sampling: RowSampling) -> None:
        """Prepare a row for a new sequence."""
        ...

    def prefill(
        self,
        tokens: Listed[int],
        start: int,
        pages: Listed[int],
        row: int,
        sampling: RowSampling,
        mask: TokenMask | None,
    ) -> Tokens:
        """Dispatch one chunk of a prompt."""
        ...

    def decode(
        self,
        rows: Listed[int],
        positions: Listed[int],
        pages: Listed[Listed[int]],
        sampling: Listed[RowSampling],
        masks: Listed[TokenMask | None],
    ) -> Tokens:
        """Dispatch one token for each row."""
        ...

    def reset(self) -> None:
        """Forget everything after a failed step."""
        ...


@dataclass(frozen=True, slots=True)
class _Step:
    """A planned step with the generations it is for."""

    prefill: tuple[Generation, PrefillChunk] | None
    decode: tuple[tuple[Generation, DecodeRow], ...]


class _InFlight:
    """Dispatched work whose tokens nobody has read."""

    def __init__(self) -> None:
        self._parts: list[tuple[tuple[Generation, ...], Tokens]] = []

    def add(self, generations: tuple[Generation, ...], tokens: Tokens) -> None:
        """Add a part of the step; only what samples for somebody is read."""
        self._parts.append((generations, tokens))

    @property
    def must_be_read(self) -> bool:
        """True when the next step of some generation depends on the tokens of this one."""
        return any(
            generation.waits_for_its_token and not generation.sequence.over
            for generations, _ in self._parts
            for generation in generations
        )

    def read(self) -> Iterator[tuple[Generation, SampledToken]]:
        """Wait for the tokens and give each to whom it belongs."""
        for generations, tokens in self._parts:
            yield from zip(generations, tokens.read(), strict=False)


class StepLoop:
    """Runs the steps of one model on a thread of its own.

    That thread alone uses the runner. Scheduler and generations are shared with the threads
    that submit and cancel, under one lock that is never held while the device works. A step is
    dispatched before the tokens of the one before it are read, so that the device does not
    wait for the host; what a sequence sampled after its end is thrown away. A step whose tokens
    decide what the next one may sample (a grammar, a reasoning budget) is read first.
    """

    def __init__(
        self,
        name: str,
        runner: StepRunner,
        scheduler: Scheduler,
        *,
        queue_wait_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start the thread.

        Args:
            name: the model's, for the log.
            queue_wait_s: seconds that a sequence may wait for a row.
            clock: seconds, monotonic.
        """
        self._name = name
        self._runner = runner
        self._scheduler = scheduler
        self._queue_wait_s = queue_wait_s
        self._clock = clock
        self._changed = threading.Condition()
        self._generations: dict[Sequence, Generation] = {}
        self._closing = False
        self.stepped = False
        """True once a step was dispatched."""
        self._thread = threading.Thread(target=self._run, name=f"engine {name}", daemon=True)
        self._thread.start()

    def now(self) -> float:
        """The clock by which the wait in the queue is measured."""
        return self._clock()

    def submit(self, generation: Generation) -> None:
        """Queue a generation.

        Raises:
            ServerBusy: no row is free and the queue is full.
            ServerShuttingDown: the loop is closing.
        """
        with self._changed:
            if self._closing:
                raise ServerShuttingDown("the server is shutting down")
            try:
                self._scheduler.submit(generation.sequence)
            except QueueFull:
                raise ServerBusy(
                    f"every decode row of {self._name} is busy and its queue is full; retry later",
                    _RETRY_AFTER_S,
                ) from None
            self._generations[generation.sequence] = generation
            self._announce_admitted()
            self._changed.notify()

    def cancel(self, sequence: Sequence) -> None:
        """End a generation; its row and pages are free at once. No event follows. Idempotent."""
        with self._changed:
            self._drop(sequence)
            self._announce_admitted()
            self._changed.notify()

    def close(self) -> None:
        """End every generation and the thread. Idempotent."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        in_flight: _InFlight | None = None
        while self._wait(in_flight):
            try:
                in_flight = self._turn(in_flight)
            # Whatever a step raises: its requests must hear of it and the next must be served.
            except Exception:
                _log.exception("a step of %s failed; its requests end here", self._name)
                in_flight = None
                with self._changed:
                    self._fail_running()
                self._start_over()
        with self._changed:
            self._refuse_waiting()
            self._fail_running()

    def _wait(self, in_flight: _InFlight | None) -> bool:
        """Wait until there is something to do; False when the loop is closing."""
        with self._changed:
            while self._scheduler.idle and in_flight is None and not self._closing:
                self._changed.wait()
            return not self._closing

    def _turn(self, in_flight: _InFlight | None) -> _InFlight | None:
        """Dispatch the next step and read the one before it; what is in flight now."""
        if in_flight is not None and in_flight.must_be_read:
            self._collect(in_flight)
            in_flight = None
        with self._changed:
            self._refuse_expired()
            step = self._plan()
            self._announce_admitted()
        following = None if step is None else self._dispatch(step)
        if in_flight is not None:
            self._collect(in_flight)
        return following

    def _start_over(self) -> None:
        try:
            self._runner.reset()
        # Without a cache nothing can be generated any more: refuse rather than hang.
        except Exception:
            _log.exception(
                "%s cannot start over after a failed step; it serves no more", self._name
            )
            with self._changed:
                self._closing = True

    def _plan(self) -> _Step | None:
        plan = self._scheduler.plan()
        if plan is None:
            return None
        chunk = plan.prefill
        return _Step(
            None if chunk is None else (self._generations[chunk.sequence], chunk),
            tuple((self._generations[row.sequence], row) for row in plan.decode),
        )

    def _dispatch(self, step: _Step) -> _InFlight:
        """Hand a step to the device."""
        self.stepped = True
        in_flight = _InFlight()
        if step.decode:
            generations = tuple(generation for generation, _ in step.decode)
            rows = [row for _, row in step.decode]
            tokens = self._runner.decode(
                [row.row for row in rows],
                [row.position for row in rows],
                [row.pages for row in rows],
                [generation.sampling for generation in generations],
                [generation.mask() for generation in generations],
            )
            in_flight.add(generations, tokens)
        if step.prefill is not None:
            generation, chunk = step.prefill
            if chunk.first:
                self._runner.start_row(chunk.row, generation.sampling)
            tokens = self._runner.prefill(
                chunk.tokens,
                chunk.start,
                chunk.pages,
                chunk.row,
                generation.sampling,
                generation.mask() if chunk.last else None,
            )
            in_flight.add((generation,) if chunk.last else (), tokens)
        return in_flight

    def _collect(self, in_flight: _InFlight) -> None:
        for generation, token in in_flight.read():
            if generation.sequence.over:
                continue
            end = generation.take(token)
            if end is not None:
                self.cancel(generation.sequence)
                generation.stream.put(end)

    def _drop(self, sequence: Sequence) -> None:
        if self._generations.pop(sequence, None) is not None:
            self._scheduler.finish(sequence)

    def _announce_admitted(self) -> None:
        for sequence, generation in self._generations.items():
            if sequence.row is not None:
                generation.stream.admit()

    def _refuse_expired(self) -> None:
        for sequence in self._scheduler.expired(self._clock() - self._queue_wait_s):
            self._generations[sequence].stream.refuse(
                ServerBusy(
                    f"no decode row of {self._name} became free within "
                    f"{self._queue_wait_s:g} s; retry later",
                    _RETRY_AFTER_S,
                )
            )
            self._drop(sequence)

    def _fail_running(self) -> None:
        for generation in self._with_row(True):
            generation.stream.put(Failed("the generation failed"))
            self._drop(generation.sequence)

    def _refuse_waiting(self) -> None:
        for generation in self._with_row(False):
            generation.stream.refuse(ServerShuttingDown("the server is shutting down"))
            self._drop(generation.sequence)

    def _with_row(self, admitted: bool) -> list[Generation]:
        """A list made now: dropping one generation may give its row to the next."""
        return [
            generation
            for sequence, generation in self._generations.items()
            if (sequence.row is not None) == admitted
        ]
