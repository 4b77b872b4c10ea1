"""What every sequence reads is what a cold run over the same tokens computes.

Scenarios 154 to 158 and 160: edited and retried turns, foreign conversations under eviction, shared
prefixes and cancels, the turn after an aborted one, a prompt whose end changes. Random traffic over
scheduler, cache and sessions, with a device whose cells tell what they were computed from.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pantheon.engine.cache import PagePool, PrefixCache, ReferencePool, SessionSlotsFull
from pantheon.engine.cache.sessions import SessionTable
from pantheon.engine.scheduler import QueueFull, Scheduler, Sequence, StepPlan
from tests.engine.toy_device import ToyDevice, cold, execute

_ROWS, _QUEUE, _SESSIONS = 3, 3, 2
_WINDOW_PAGES = 12


@dataclass(eq=False)
class _Running:
    """A sequence and what became of it: fed by the device, read by the host."""

    sequence: Sequence
    stops_after: int
    on_device: list[int] = field(default_factory=list)
    read: list[int] = field(default_factory=list)


class _Traffic(RuleBasedStateMachine):
    """As the step loop does it: at most one step is dispatched ahead of the one that is read."""

    page_size, chunk, longest, slots, repeated = 4, 8, 30, 0, 1

    @initialize(spare=st.sampled_from([0, 0, 3, 12]))
    def start(self, spare: int) -> None:
        total = _WINDOW_PAGES + spare
        self.device = ToyDevice(rows=_ROWS, pages=total, page_size=self.page_size, slots=self.slots)
        slots = ReferencePool(self.slots) if self.slots else None
        self.cache = PrefixCache(PagePool(total, self.page_size), slots, checkpoint_every=64)
        self.scheduler = Scheduler(
            rows=_ROWS, queue_depth=_QUEUE, chunk=self.chunk, cache=self.cache
        )
        self.now = 0.0
        self.table = SessionTable(
            max_sessions=_SESSIONS, idle_ttl_s=50, watch_grace_s=5, forget=self.cache.forget
        )
        self.running: dict[Sequence, _Running] = {}
        self.histories: list[tuple[int, ...]] = [()]
        self.planned: StepPlan | None = None
        self.unread: list[list[tuple[_Running, int]]] = []

    @rule(
        session=st.sampled_from([None, "a", "a", "a", "b", "b", "c"]),
        history=st.integers(0, 5),
        cut=st.sampled_from([0, 0, 0, 1, 2, 3, 5, 8, 13, 21, 34, 70]),
        new=st.lists(st.integers(0, 2), max_size=9),
        limit=st.integers(1, 10),
        stops_after=st.integers(1, 10),
    )
    def submit(
        self,
        session: str | None,
        history: int,
        cut: int,
        new: list[int],
        limit: int,
        stops_after: int,
    ) -> None:
        """A prompt that extends, edits or repeats what was seen before."""
        earlier = self.histories[-1 - history % len(self.histories)]
        earlier = earlier[: max(len(earlier) - cut, 0)]
        if len(earlier) > self.longest:
            earlier = earlier[: self.longest // 2]
        prompt = (earlier + tuple(new * self.repeated))[: self.longest] or (1,)
        sequence = Sequence(prompt, limit, self.now)
        try:
            if session is not None:
                sequence.session = self.table.require(session, self.now)
            self.scheduler.submit(sequence)
        except SessionSlotsFull:
            assert len(self.table) == _SESSIONS
        except QueueFull:
            assert self.scheduler.waiting == _QUEUE
        else:
            if sequence.session is not None:
                self.table.begin_turn(sequence.session, self.now)
            self.running[sequence] = _Running(sequence, stops_after)
            self.histories.append(prompt)

    @precondition(lambda self: self.planned is None and len(self.unread) < 2)
    @rule()
    def plan(self) -> None:
        self.planned = self.scheduler.plan()
        if self.planned is None and not self.unread:
            assert not self.running, "a sequence is stuck"

    @precondition(lambda self: self.planned is not None)
    @rule()
    def dispatch(self) -> None:
        plan, self.planned = self.planned, None
        assert plan is not None
        chunk = plan.prefill
        decoded = execute(self.device, plan)
        tokens = []
        for row, token in zip(plan.decode, decoded, strict=True):
            run = self.running.get(row.sequence)
            if run is not None:
                fed = len(row.sequence.prompt) + len(run.on_device)
                assert row.position == fed - 1
                self._reads_as_cold(row.pages, (*row.sequence.prompt, *run.on_device))
                run.on_device.append(token)
                tokens.append((run, token))
        if chunk is not None and chunk.sequence in self.running:
            end = chunk.start + len(chunk.tokens)
            assert chunk.start // self.chunk == (end - 1) // self.chunk, "it crosses the grid"
            assert end < len(chunk.sequence.prompt), "a decode step is fed the last token"
            self._reads_as_cold(chunk.pages, chunk.sequence.prompt[:end])
        self.unread.append(tokens)

    @precondition(lambda self: self.unread)
    @rule()
    def read(self) -> None:
        for run, token in self.unread.pop(0):
            if run.sequence.over:
                continue
            run.read.append(token)
            if len(run.read) == min(run.stops_after, run.sequence.limit):
                self._end(run, tuple(run.read))

    @precondition(lambda self: self.running)
    @rule(steps=st.integers(1, 30))
    def steps_run(self, steps: int) -> None:
        """As the loop goes when nobody disturbs it."""
        for _ in range(steps):
            while len(self.unread) > 1:
                self.read()
            if self.planned is None:
                self.plan()
            if self.planned is not None:
                self.dispatch()
            elif self.unread:
                self.read()
            self.scheduler.check()

    @precondition(lambda self: self.running)
    @rule(choice=st.integers(0, 100))
    def cancel(self, choice: int) -> None:
        runs = list(self.running.values())
        self._end(runs[choice % len(runs)], None)

    @rule(session=st.sampled_from("abc"), seconds=st.sampled_from([0, 0, 60]))
    def a_session_ends(self, session: str, seconds: int) -> None:
        """Released, or idle for too long with all others."""
        if not seconds:
            self.table.release(session)
        self.now += seconds
        self.table.expire(self.now)

    @rule(rows=st.integers(1, _ROWS), pace=st.integers(0, 3))
    def served_rows_and_pace_change(self, rows: int, pace: int) -> None:
        self.scheduler.row_limit, self.scheduler.pace = rows, pace

    @rule(again=st.integers(0, 4))
    def a_step_fails(self, again: int) -> None:
        if again:
            return
        self.planned, self.unread = None, []
        self.scheduler.lose_cache()
        for run in [run for run in self.running.values() if run.sequence.row is not None]:
            self._end(run, None, lost=True)
        self.device.reset()

    @invariant()
    def adds_up(self) -> None:
        self.scheduler.check()
        self.table.check()
        assert self.scheduler.waiting == sum(s.row is None for s in self.running)

    @invariant()
    def what_is_kept_is_what_a_cold_run_has(self) -> None:
        if self.planned is not None:
            return
        for name in "abc":
            session = self.table.get(name, self.now)
            for conversation in () if session is None else session.conversations:
                self._reads_as_cold(conversation.pages, conversation.tokens[: conversation.held])
                for checkpoint in conversation.checkpoints:
                    self._state_is_cold(checkpoint.slot, conversation.tokens[: checkpoint.tokens])

    def _state_is_cold(self, slot: int, tokens: tuple[int, ...]) -> None:
        # A save that is still to be dispatched is the first thing of the next step.
        if not any(save.slot == slot for save in self.scheduler._saves):
            assert self.device.kept_states[slot] == cold(tokens, True)[1]

    def _reads_as_cold(self, pages: tuple[int, ...], tokens: tuple[int, ...]) -> None:
        expected = cold(tokens, self.device.recurrent)[0]
        assert self.device.cells(pages, len(tokens)) == expected

    def _end(self, run: _Running, sampled: tuple[int, ...] | None, *, lost: bool = False) -> None:
        sequence = run.sequence
        del self.running[sequence]
        self.scheduler.finish(sequence, sampled, lost=lost)
        if sequence.session is not None:
            self.table.end_turn(sequence.session, self.now)
        if sampled is not None:
            self.histories.append(sequence.prompt + sampled)

    def teardown(self) -> None:
        """When everything has ended, nothing is held."""
        if not hasattr(self, "cache"):
            return
        for run in list(self.running.values()):
            self._end(run, None)
        self.table.clear()
        self.scheduler.check()
        assert self.cache.pool.free == self.cache.pool.total


class _RecurrentTraffic(_Traffic):
    page_size, chunk, longest, slots, repeated = 16, 32, 180, 7, 8


_SETTINGS = settings(
    max_examples=60,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

TestTraffic = _Traffic.TestCase
TestTraffic.settings = _SETTINGS
TestRecurrentTraffic = _RecurrentTraffic.TestCase
TestRecurrentTraffic.settings = _SETTINGS
