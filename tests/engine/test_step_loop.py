"""The engine thread with a runner of plain Python: rows, ends, cancels, failures.

The scripted runner stands in for the device; everything else is the real thing.
"""

import threading
import time
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Listed
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from pantheon.engine.answer import Answer
from pantheon.engine.cache import PagePool, PrefixCache, SessionTable
from pantheon.engine.completion import EventStream
from pantheon.engine.constraint import Constraint
from pantheon.engine.errors import GenerationFailed, ServerBusy, ServerShuttingDown
from pantheon.engine.events import Event, Failed, Finished, TextDelta
from pantheon.engine.generation import Generation
from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.sampled_token import SampledToken
from pantheon.engine.scheduler import Scheduler, Sequence
from pantheon.engine.step_loop import StepLoop
from pantheon.engine.token_mask import TokenMask

_WAIT_S = 10.0


class _TokenBytes:
    def get(self, token: int, *, special: bool = False) -> bytes:
        return b"x"


class _Decoder:
    between_characters = True
    latest = b"x"

    def push(self, token_id: int) -> str:
        return f"{token_id} "

    def flush(self) -> str:
        return ""


@dataclass
class _Tokens:
    values: list[int]
    finite: bool = True

    def read(self) -> list[SampledToken]:
        return [SampledToken(value, finite=self.finite) for value in self.values]


@dataclass
class _Runner:
    """Samples the position of the token; runs only while `gate` is set."""

    gate: threading.Event = field(default_factory=threading.Event)
    steps: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)
    fail_at: int | None = None
    resets: int = 0
    fail_reset: bool = False
    finite: bool = True
    started: list[int] = field(default_factory=list)
    batches: tuple[int, ...] = (8,)
    masks: list[TokenMask | None] = field(default_factory=list)

    def _step(self, kind: str, rows: tuple[int, ...]) -> None:
        assert self.gate.wait(_WAIT_S)
        self.steps.append((kind, rows))
        if self.fail_at == len(self.steps):
            raise RuntimeError("the device fell over")

    def prefill(
        self,
        tokens: Listed[int],
        start: int,
        pages: Listed[int],
        row: int,
    ) -> _Tokens:
        self._step("prefill", (row,))
        return _Tokens([])

    def decode(
        self,
        rows: Listed[int],
        positions: Listed[int],
        pages: Listed[Listed[int]],
        sampling: Listed[RowSampling],
        masks: Listed[TokenMask | None],
        fed: Listed[int | None],
        taken: Listed[tuple[int, int]],
    ) -> _Tokens:
        self.masks.extend(masks)
        self._step("decode", tuple(rows))
        return _Tokens([position + 1 for position in positions], self.finite)

    def start_row(self, row: int, sampling: RowSampling) -> None:
        self.started.append(row)

    def load_state(self, row: int, slot: int | None) -> None:
        assert slot is None

    def save_state(self, row: int, slot: int) -> None:
        raise AssertionError("there are no recurrent layers")

    def copy_page(self, source: int, target: int) -> None:
        raise AssertionError("nothing is cached without a session")

    def read_page(self, page: int) -> Listed[np.ndarray]:
        raise AssertionError("nobody exports anything")

    def write_page(self, page: int, content: Listed[np.ndarray]) -> None:
        raise AssertionError("nobody restores anything")

    def reset(self) -> None:
        self.resets += 1
        if self.fail_reset:
            raise RuntimeError("out of memory")


@dataclass
class _Bench:
    loop: StepLoop
    runner: _Runner
    scheduler: Scheduler

    def submit(
        self,
        prompt: int,
        limit: int,
        end: frozenset[int] = frozenset(),
        constraint: Constraint | None = None,
    ) -> EventStream:
        sequence = Sequence(tuple(range(prompt)), limit, queued_at=self.loop.now())
        stream = EventStream("tiny", lambda: self.loop.cancel(sequence))
        answer = Answer(
            decoder=_Decoder(),
            token_bytes=_TokenBytes(),
            stops=(),
            end_tokens=end,
            limit=limit,
            reasoning=None,
            top_logprobs=None,
            stop_repetition=False,
        )
        sampling = RowSampling(0.0, 1.0, 0, 0)
        self.loop.submit(Generation(sequence, sampling, answer, stream, lambda: 64, constraint))
        return stream


@contextmanager
def _bench(
    rows: int = 2,
    queue_depth: int = 4,
    queue_wait_s: float = 60.0,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[_Bench]:
    cache = PrefixCache(PagePool(16, 4))
    scheduler = Scheduler(rows=rows, queue_depth=queue_depth, chunk=8, cache=cache)
    table = SessionTable(max_sessions=2, idle_ttl_s=60.0, watch_grace_s=5.0, forget=cache.forget)
    runner = _Runner()
    loop = StepLoop("tiny", runner, scheduler, table, queue_wait_s=queue_wait_s, clock=clock)
    try:
        yield _Bench(loop, runner, scheduler)
    finally:
        runner.gate.set()
        loop.close()
        scheduler.check()
        assert scheduler.idle


def _all_events(stream: EventStream) -> list[Event]:
    events: list[Event] = []
    while not events or not isinstance(events[-1], Finished | Failed):
        event = stream.next_event(_WAIT_S)
        assert event is not None, f"no event within {_WAIT_S} s after {events}"
        events.append(event)
    return events


def _text(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def test_a_generation_runs_to_its_limit_and_reports_usage() -> None:
    """Reference, `usage`: prompt, completion and the KV held at the end."""
    with _bench() as bench:
        bench.runner.gate.set()
        events = _all_events(bench.submit(prompt=10, limit=3))
        assert _text(events) == "10 11 12 "
        end = events[-1]
        assert isinstance(end, Finished)
        assert (end.finish_reason, end.usage.prompt_tokens, end.usage.completion_tokens) == (
            "length",
            10,
            3,
        )
        assert (end.usage.kv_used, end.usage.kv_cap, end.usage.cached_tokens) == (12, 64, 0)


def test_what_is_sampled_after_an_end_token_is_thrown_away() -> None:
    """A step is dispatched before the one before it is read."""
    with _bench() as bench:
        bench.runner.gate.set()
        events = _all_events(bench.submit(prompt=4, limit=9, end=frozenset({6})))
        assert _text(events) == "4 5 "
        assert isinstance(events[-1], Finished) and events[-1].finish_reason == "stop"


def test_requests_that_come_together_share_decode_steps() -> None:
    with _bench() as bench:
        streams = [bench.submit(prompt=3, limit=6) for _ in range(2)]
        bench.runner.gate.set()
        assert {_text(_all_events(stream)) for stream in streams} == {"3 4 5 6 7 8 "}
        assert any(kind == "decode" and len(rows) == 2 for kind, rows in bench.runner.steps)


def test_a_cancel_frees_the_row_for_the_next_in_the_queue() -> None:
    """Reference: a client that disconnects aborts the turn and frees its slot."""
    with _bench(rows=1) as bench:
        first = bench.submit(prompt=3, limit=50)
        second = bench.submit(prompt=3, limit=2)
        assert first.wait_admitted(0) and not second.wait_admitted(0)
        first.cancel()
        first.cancel()
        assert second.wait_admitted(0), "the row is free before any step ran"
        bench.runner.gate.set()
        assert _text(_all_events(second)) == "3 4 "
        assert first.next_event(0) is None, "nothing is said after a cancel"


def test_the_row_is_free_when_the_end_is_heard_of() -> None:
    """As many requests one after another as there are rows are never refused."""
    with _bench(rows=1, queue_depth=0) as bench:
        bench.runner.gate.set()
        for _ in range(200):
            assert _text(_all_events(bench.submit(prompt=3, limit=2))) == "3 4 "


def test_a_full_queue_is_server_busy_with_retry_after() -> None:
    """Reference, 429 `server_busy`: all slots busy and the queue full."""
    with _bench(rows=1, queue_depth=1) as bench:
        streams = [bench.submit(prompt=3, limit=2) for _ in range(2)]
        with pytest.raises(ServerBusy, match="queue is full") as refused:
            bench.submit(prompt=3, limit=2)
        assert refused.value.retry_after is not None
        bench.runner.gate.set()
        assert [_text(_all_events(stream)) for stream in streams] == ["3 4 ", "3 4 "]


def test_a_wait_beyond_the_limit_is_server_busy() -> None:
    """Reference, 429 `server_busy`: queue wait timed out."""
    now = [0.0]
    with _bench(rows=1, queue_wait_s=30.0, clock=lambda: now[0]) as bench:
        running = bench.submit(prompt=3, limit=20)
        waiting = bench.submit(prompt=3, limit=2)
        now[0] = 31.0
        bench.runner.gate.set()
        with pytest.raises(ServerBusy, match="within 30 s"):
            waiting.wait_admitted(_WAIT_S)
        assert isinstance(_all_events(running)[-1], Finished)


def test_a_failed_step_ends_its_requests_and_the_next_is_served() -> None:
    """Reference, 500 `server_error`: generation failed."""
    with _bench(rows=1) as bench:
        bench.runner.fail_at = 2
        failing = bench.submit(prompt=3, limit=9)
        waiting = bench.submit(prompt=3, limit=2)
        bench.runner.gate.set()
        assert isinstance(_all_events(failing)[-1], Failed)
        assert _text(_all_events(waiting)) == "3 4 "
        assert bench.runner.resets == 1


def test_scores_that_are_no_numbers_fail_their_request_alone() -> None:
    """Reference, 500 `server_error`: generation failed; never an empty answer that looks whole."""
    with _bench() as bench:
        bench.runner.finite = False
        bench.runner.gate.set()
        failed = bench.submit(prompt=2, limit=3)
        assert isinstance(_all_events(failed)[-1], Failed)
        bench.runner.finite = True
        assert isinstance(_all_events(bench.submit(prompt=2, limit=3))[-1], Finished)
        assert bench.runner.resets == 0
        bench.scheduler.check()


def test_a_loop_that_cannot_start_over_ends_everything_instead_of_hanging() -> None:
    """Reference, 500 `server_error`: the server itself does not shut down."""
    with _bench(rows=1) as bench:
        bench.runner.fail_at = 1
        bench.runner.fail_reset = True
        failing = bench.submit(prompt=3, limit=9)
        waiting = bench.submit(prompt=3, limit=2)
        bench.runner.gate.set()
        assert isinstance(_all_events(failing)[-1], Failed)
        assert isinstance(_all_events(waiting)[-1], Failed), "it had just got the row"
        assert bench.loop.stopped
        with pytest.raises(GenerationFailed, match="serves no more"):
            bench.submit(prompt=3, limit=2)


def test_close_ends_running_and_waiting_requests() -> None:
    """Reference, 503 `server_shutting_down`."""
    with _bench(rows=1) as bench:
        running = bench.submit(prompt=3, limit=50)
        waiting = bench.submit(prompt=3, limit=2)
        closer = threading.Thread(target=bench.loop.close)
        closer.start()
        bench.runner.gate.set()
        closer.join(_WAIT_S)
        assert isinstance(_all_events(running)[-1], Failed)
        with pytest.raises(ServerShuttingDown):
            waiting.wait_admitted(_WAIT_S)
        with pytest.raises(ServerShuttingDown):
            bench.submit(prompt=3, limit=2)


class _Countdown:
    """A constraint whose mask is the number of tokens taken; complete after `last` of them."""

    free_ahead = False
    dead = False
    relaxed = False

    def __init__(self, last: int) -> None:
        self.taken = 0
        self._last = last

    @property
    def complete(self) -> bool:
        return self.taken == self._last

    @property
    def closed(self) -> bool:
        return self.complete

    def mask(self) -> TokenMask:
        return np.array([self.taken], np.uint32)

    def accept(self, token_id: int) -> None:
        self.taken += 1


def test_a_constrained_row_is_masked_by_what_it_sampled_before() -> None:
    """No step is dispatched for it before its last token was read."""
    with _bench() as bench:
        bench.runner.gate.set()
        constraint: Any = _Countdown(last=4)
        events = _all_events(bench.submit(prompt=3, limit=50, constraint=constraint))
        masks = [None if mask is None else int(mask[0]) for mask in bench.runner.masks]
        assert masks == [0, 1, 2, 3]
        assert _text(events) == "3 4 5 6 "
        end = events[-1]
        assert isinstance(end, Finished)
        assert (end.finish_reason, end.format_closed) == ("stop", True)


def test_a_row_beside_a_constrained_one_keeps_its_answer() -> None:
    with _bench() as bench:
        constraint: Any = _Countdown(last=3)
        free = bench.submit(prompt=3, limit=6)
        bound = bench.submit(prompt=3, limit=50, constraint=constraint)
        bench.runner.gate.set()
        assert _text(_all_events(bound)) == "3 4 5 "
        assert _text(_all_events(free)) == "3 4 5 6 7 8 "


def test_a_format_that_does_not_close_within_the_limit_says_so() -> None:
    """Reference, `response_format_status` not_enforced."""
    with _bench() as bench:
        bench.runner.gate.set()
        constraint: Any = _Countdown(last=9)
        end = _all_events(bench.submit(prompt=3, limit=2, constraint=constraint))[-1]
        assert isinstance(end, Finished)
        assert (end.finish_reason, end.format_closed) == ("length", False)


def test_every_sequence_prepares_its_row_once() -> None:
    with _bench(rows=1) as bench:
        bench.runner.gate.set()
        for _ in range(2):
            _all_events(bench.submit(prompt=20, limit=2))
        assert bench.runner.started == [0, 0]


def test_a_close_waits_for_a_step_only_so_long_or_until_it_is_abandoned() -> None:
    """ARCHITECTURE, several hosts: the other half of a step may never come."""
    with _bench() as bench:
        stream = bench.submit(prompt=4, limit=3)
        deadline = time.monotonic() + _WAIT_S
        while not bench.loop.stepped and time.monotonic() < deadline:
            time.sleep(0.001)
        assert not bench.loop.close(within=0.05), "the step waits at the gate"
        closing = threading.Thread(target=bench.loop.close)
        closing.start()
        bench.loop.abandon(ServerShuttingDown("it does not end"))
        closing.join(_WAIT_S)
        assert not closing.is_alive()
        assert isinstance(_all_events(stream)[-1], Failed)
