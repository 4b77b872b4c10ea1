"""The engine thread of one model: plan, dispatch, read, tell."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator

from pantheon.engine.cache import Session, SessionSlotsFull, SessionTable
from pantheon.engine.config import Speculation
from pantheon.engine.draft_budget import DraftBudget
from pantheon.engine.drafting import DraftCount
from pantheon.engine.errors import (
    EngineError,
    GenerationFailed,
    ServerShuttingDown,
    SessionCapacity,
)
from pantheon.engine.events import Failed
from pantheon.engine.generation import Generation
from pantheon.engine.in_flight import InFlight, PlannedStep, dispatch
from pantheon.engine.jobs import Job, Jobs
from pantheon.engine.live_generations import LiveGenerations
from pantheon.engine.live_sessions import LiveSessions
from pantheon.engine.sampled_token import SampledToken
from pantheon.engine.scheduler import Scheduler, Sequence
from pantheon.engine.status import UNMEASURED_PREFILL_RATE
from pantheon.engine.step_runner import StepRunner
from pantheon.engine.step_times import StepTimes
from pantheon.engine.upkeep import Upkeep

_log = logging.getLogger(__name__)


class StepLoop:
    """Runs the steps of one model on a thread of its own.

    That thread alone uses the runner. Scheduler, sessions and generations are shared with the
    threads that submit and cancel, under one lock that is never held while the device works. A
    step is dispatched before the tokens of the one before it are read, so that the device does
    not wait for the host; what a sequence sampled after its end is thrown away. A step whose
    tokens decide what the next one may sample (a grammar, a reasoning budget) is read first.

    Attributes:
        lock: that lock; reentrant.
        sessions: the model's sessions.
        times: how long its steps take.
        stepped: True once a step was dispatched.
        drafts: how many drafts were right in answers that ended.
    """

    def __init__(
        self,
        name: str,
        runner: StepRunner,
        scheduler: Scheduler,
        sessions: SessionTable,
        *,
        queue_wait_s: float,
        speculation: Speculation = Speculation.NEVER,
        row_limit: Callable[[], int] | None = None,
        upkeep: Upkeep | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start the thread.

        Args:
            name: the model's, for the log.
            queue_wait_s: seconds that a sequence may wait for a row.
            speculation: whether decode steps hold drafts.
            row_limit: tells how many rows may be in use right now; None for all.
            upkeep: what is done on the thread while nothing runs or waits; None for nothing.
            clock: seconds, monotonic.
        """
        self._name = name
        self._runner = runner
        self._scheduler = scheduler
        self._queue_wait_s = queue_wait_s
        self._row_limit = row_limit
        self._upkeep = upkeep
        self._clock = clock
        self.lock = threading.Condition()
        self.sessions = LiveSessions(sessions, self.lock, clock)
        self.times = StepTimes(scheduler.chunk)
        self._budget = None
        if speculation is not Speculation.NEVER:
            always = speculation is Speculation.ALWAYS
            self._budget = DraftBudget(runner.batches, self.times.batches, always=always)
        self.stepped = False
        self.drafts = DraftCount()
        self._live = LiveGenerations(name, scheduler, self.sessions)
        self._jobs = Jobs()
        self._refusal: EngineError | None = None
        self._closing = False
        self._abandoned = False
        self._last_read = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve, name=f"engine {name}", daemon=True)
        self._thread.start()

    def now(self) -> float:
        """The clock by which the wait in the queue is measured."""
        return self._clock()

    @property
    def idle(self) -> bool:
        """True when no generation runs or waits."""
        return not self._live

    @property
    def stopped(self) -> bool:
        """True once it takes nothing any more: it failed for good, was abandoned or closed."""
        return self._closing

    @property
    def load(self) -> int:
        """Generations that run or wait."""
        return len(self._live)

    def submit(self, generation: Generation, session_id: str | None = None) -> None:
        """Queue a generation; its session is busy until its end.

        Raises:
            ServerBusy: no row is free and the queue is full.
            SessionCapacity: the session is new and every slot holds a live one.
            GenerationFailed: it could not start over after a step that failed.
            EngineError: what `drain` was given; ServerShuttingDown after `close`.
        """
        sequence = generation.sequence
        with self.lock:
            if self._refusal is not None or self._closing:
                raise self._refused()
            if session_id is not None:
                sequence.session = self._session(session_id, len(sequence.prompt))
            self._live.submit(generation)
            self.lock.notify()

    def cancel(self, sequence: Sequence) -> None:
        """Break a generation off; row and pages are free at once. No event follows. Idempotent."""
        with self.lock:
            self._live.drop(sequence)
            self._live.announce_admitted()
            self.lock.notify()

    def perform(self, pieces: Iterator[None]) -> None:
        """Run a job on the engine thread, one piece between two steps, and wait for its end.

        Raises:
            EngineError: the loop closes before it is done; see `submit`.
            Exception: what a piece raised.
        """
        job = Job(pieces)
        with self.lock:
            if self._closing:
                raise self._refused()
            self._jobs.add(job)
            self.lock.notify()
        job.wait()

    def drain(self, refusal: EngineError) -> None:
        """Admit nothing new and refuse what waits; what runs goes on. Idempotent.

        Args:
            refusal: what is raised to those who wait or come; the first one given holds.
        """
        with self.lock:
            self._refusal = self._refusal or refusal
            self._live.refuse_waiting(self._refusal)

    def abandon(self, refusal: EngineError) -> None:
        """End every generation although a step that has begun may never end. Idempotent.

        Nothing is waited for afterwards: the thread may stand in that step for ever.

        Args:
            refusal: what is raised to those who wait or come.
        """
        with self.lock:
            self._abandoned = self._closing = True
            self._refusal = self._refusal or refusal
            self._live.refuse_waiting(self._refusal)
            self._live.fail_running(Failed(str(refusal)))
            self._jobs.give_up(refusal)
            self.lock.notify()
        self._over.set()

    def close(self, within: float | None = None) -> bool:
        """End every generation, session and the thread. Idempotent.

        Args:
            within: seconds that a step which has begun may take; None for any time.

        Returns:
            False where it takes longer; `abandon` ends the rest.
        """
        with self.lock:
            self._closing = True
            self.lock.notify()
        if not self._over.wait(within):
            return False
        if not self._abandoned:
            self._thread.join()
        return True

    def _session(self, session_id: str, prompt_tokens: int) -> Session:
        try:
            return self.sessions.require(session_id)
        except SessionSlotsFull:
            rate = self.times.prefill_tokens_per_s or UNMEASURED_PREFILL_RATE
            raise SessionCapacity(
                f"every session slot of {self._name} holds a live session; release one or retry "
                f"later: prefilling this prompt of {prompt_tokens} tokens again takes about "
                f"{prompt_tokens / rate:.1f} s"
            ) from None

    def _serve(self) -> None:
        try:
            self._run()
        finally:
            self._over.set()

    def _run(self) -> None:
        in_flight: InFlight | None = None
        while self._wait(in_flight):
            try:
                if in_flight is None and self._upkeep is not None and self._rests() == 0:
                    self._upkeep.run()
                in_flight = self._turn(in_flight)
                self._jobs.step()
            # Whatever a step raises: its requests must hear of it and the next must be served.
            except Exception:
                _log.exception("a step of %s failed; its requests end here", self._name)
                in_flight = None
                with self.lock:
                    # First what is kept: who is admitted below must not resume from it.
                    self._scheduler.lose_cache()
                    self._live.fail_running(Failed("the generation failed"))
                    self._jobs.give_up(GenerationFailed("a step failed beside it"))
                self._start_over()
        with self.lock:
            refusal = self._refused()
            self._live.refuse_waiting(refusal)
            stopped = f"{self._name} stopped serving before the answer was complete"
            ends_with_server = isinstance(refusal, ServerShuttingDown)
            self._live.fail_running(Failed(stopped, shutting_down=ends_with_server))
            self._jobs.give_up(refusal)
            self.sessions.clear()

    def _wait(self, in_flight: InFlight | None) -> bool:
        """Wait until there is something to do; False when the loop is closing."""
        with self.lock:
            while (
                self._scheduler.idle
                and self._jobs.empty
                and in_flight is None
                and not self._closing
                and (rest := self._rests()) != 0
            ):
                self.lock.wait(rest)
            return not self._closing

    def _rests(self) -> float | None:
        """Seconds until upkeep is due, if nothing comes until then; None for never."""
        with self.lock:
            return (
                None if self._upkeep is None or not self._scheduler.idle else self._upkeep.due_in_s
            )

    def _turn(self, in_flight: InFlight | None) -> InFlight | None:
        """Dispatch the next step and read the one before it; what is in flight now."""
        if in_flight is not None and (in_flight.must_be_read or self._drafts()):
            self._collect(in_flight)
            in_flight = None
        with self.lock:
            self._live.refuse_expired(self._clock(), self._queue_wait_s)
            step = self._plan(all_read=in_flight is None)
            self._live.announce_admitted()
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
            with self.lock:
                self._closing = True
                self._refusal = self._refusal or GenerationFailed(
                    f"{self._name} could not start over after a failed step and serves no more; "
                    "it must be unloaded and loaded again"
                )

    def _plan(self, *, all_read: bool) -> PlannedStep | None:
        """Plan a step; drafts follow only tokens that are read."""
        if self._row_limit is not None:
            self._scheduler.row_limit = self._row_limit()
        pace = self.times.pace
        if pace is not None:
            self._scheduler.pace = pace
        plan = self._scheduler.plan(self._draft, self._drafts() if all_read else 0)
        if plan is None:
            return None
        return PlannedStep(
            plan.prefill,
            tuple((self._live[row.sequence], row) for row in plan.decode),
            plan.saves,
            tuple((self._live[start.sequence], start) for start in plan.starts),
        )

    def _drafts(self) -> int:
        """How many drafts the next step should hold."""
        if self._budget is None:
            return 0
        with self.lock:
            decoding = self._scheduler.decoding
            guesses = [self._live[sequence].guess for sequence in decoding]
        return self._budget.drafts(len(decoding), [guess for guess in guesses if guess])

    def _draft(self, sequence: Sequence, most: int) -> tuple[int, ...]:
        drafting = self._live[sequence].drafting
        return () if drafting is None else drafting.draft(most)

    def _dispatch(self, step: PlannedStep) -> InFlight:
        self.stepped = True
        return dispatch(step, self._runner, self._clock())

    def _collect(self, in_flight: InFlight) -> None:
        for generation, tokens in in_flight.read():
            if not generation.sequence.over:
                self._take(generation, tokens)
        self._measure(in_flight)

    def _take(self, generation: Generation, tokens: list[SampledToken]) -> None:
        """Take the tokens of a generation's step, those of drafts as far as they were right."""
        sequence, end = generation.sequence, None
        for index, token in enumerate(tokens):
            if index:
                if end is not None or not generation.confirms_draft(index - 1):
                    break
                with self.lock:
                    self._scheduler.accept(sequence)
            if not token.finite:
                self._fail_numbers(generation)
                return
            end = generation.take(token)
        generation.end_step()
        if end is not None:
            with self.lock:
                self._live.drop(sequence, tuple(generation.sampled))
                self._live.announce_admitted()
            if generation.drafting is not None and generation.drafting.count.drafted:
                self.drafts += generation.drafting.count
                _log.info(
                    "%s: %s in an answer of %d tokens, %s in all",
                    self._name,
                    generation.drafting.count,
                    len(generation.sampled),
                    self.drafts,
                )
            generation.stream.put(end)

    def _fail_numbers(self, generation: Generation) -> None:
        """End a generation whose scores are no numbers, and keep nothing of what it computed."""
        _log.error("%s computed scores that are no numbers; the request ends here", self._name)
        with self.lock:
            self._live.drop(generation.sequence, lost=True)
            self._live.announce_admitted()
        generation.stream.put(Failed("the model computed scores that are no numbers"))

    def _measure(self, in_flight: InFlight) -> None:
        """Take the time since the step could begin: its dispatch, or the end of the one before."""
        now, step = self._clock(), in_flight.step
        began = max(self._last_read, in_flight.dispatched_at)
        self._last_read = now
        if step.decode or step.prefill is not None:
            prefilled = 0 if step.prefill is None else len(step.prefill.tokens)
            self.times.add(now - began, batch=in_flight.batch, prefilled=prefilled)

    def _refused(self) -> EngineError:
        """Why nothing is admitted any more."""
        return self._refusal or ServerShuttingDown(f"{self._name} takes no more requests")
