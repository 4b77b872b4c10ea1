"""Where the time of decode steps goes, taken by wrapping what the step loop calls.

Nothing of it is in the engine: classes are wrapped in the process of the traced server alone.
"""

from __future__ import annotations

import functools
import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, Final

from pantheon.engine.generation import Generation
from pantheon.engine.runner import Runner, Sampled
from pantheon.engine.scheduler import Scheduler
from pantheon.http.sse import SseBody

PARTS: Final = ("plan", "dispatch", "device", "tokens")
"""Of a turn of the loop: planning the step; making its arguments and handing it over; waiting for
the tokens of the one before; making text and events of them."""

_MOST_TURNS: Final = 100_000


@dataclass(slots=True)
class Turn:
    """One turn of the step loop, in seconds.

    Attributes:
        rows: that decode in the step it dispatched.
        prefills: whether that step has a prefill.
        parts: by name, of `PARTS`.
        whole: from its plan to the next one's.
    """

    rows: int
    prefills: bool
    parts: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))
    whole: float = 0.0


class StepTrace:
    """What was seen so far. Turns are told by the engine thread, pieces by those of requests."""

    def __init__(self) -> None:
        self._turns: list[Turn] = []
        self._began = 0.0
        self._lock = threading.Lock()
        self._pieces = 0
        self._piece_seconds = 0.0

    def begin_turn(self, began: float, rows: int, prefills: bool) -> None:
        """A plan was made, which ends the turn before."""
        if self._turns:
            self._turns[-1].whole = began - self._began
        self._began = began
        if len(self._turns) < _MOST_TURNS:
            self._turns.append(Turn(rows, prefills))

    def add(self, part: str, seconds: float) -> None:
        """Add to a part of the turn."""
        if self._turns:
            self._turns[-1].parts[part] += seconds

    def add_piece(self, seconds: float) -> None:
        """Add the processor time that one piece of a stream took its thread."""
        with self._lock:
            self._pieces += 1
            self._piece_seconds += seconds

    def report(self, rows: int) -> dict[str, Any]:
        """Medians of the turns that decode `rows` rows and nothing else, as JSON, in seconds."""
        turns = steady_turns(self._turns, rows)
        with self._lock:
            piece = self._piece_seconds / self._pieces if self._pieces else 0.0
        return {
            "turns": len(turns),
            "http_per_piece": piece,
            **(asdict(typical(turns)) if turns else {}),
        }


@dataclass(frozen=True, slots=True)
class TypicalTurn:
    """Medians in seconds."""

    parts: dict[str, float]
    whole: float


def steady_turns(turns: list[Turn], rows: int) -> list[Turn]:
    """Turns of `rows` rows after a turn of the same, without prefills: what is read is a step's
    like the one that is dispatched. The last turn has no end yet."""
    return [
        turn
        for before, turn in itertools.pairwise(turns[:-1])
        if before.rows == turn.rows == rows and not (before.prefills or turn.prefills)
    ]


def typical(turns: list[Turn]) -> TypicalTurn:
    """The medians of turns."""
    return TypicalTurn(
        {part: median(turn.parts[part] for turn in turns) for part in PARTS},
        median(turn.whole for turn in turns),
    )


def trace_steps() -> StepTrace:
    """Wrap what a step loop calls, for all models of this process."""
    trace = StepTrace()
    plan = Scheduler.plan

    @functools.wraps(plan)
    def traced_plan(*arguments: Any, **named: Any) -> Any:
        began = time.perf_counter()
        found = plan(*arguments, **named)
        took = time.perf_counter() - began
        if found is not None:
            trace.begin_turn(began, len(found.decode), found.prefill is not None)
            trace.add("plan", took)
        else:
            trace.begin_turn(began, 0, False)
        return found

    _replace(Scheduler, "plan", traced_plan)
    for owner, name, part in (
        (Runner, "decode", "dispatch"),
        (Sampled, "read", "device"),
        (Generation, "take", "tokens"),
    ):
        _replace(owner, name, _timed(getattr(owner, name), trace, part))
    _replace(SseBody, "__next__", _pieces(SseBody.__next__, trace))
    return trace


def _replace(owner: type, name: str, function: Callable[..., Any]) -> None:
    setattr(owner, name, function)


def _timed(function: Callable[..., Any], trace: StepTrace, part: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def timed(*arguments: Any, **named: Any) -> Any:
        began = time.perf_counter()
        try:
            return function(*arguments, **named)
        finally:
            trace.add(part, time.perf_counter() - began)

    return timed


def _pieces(following: Callable[[SseBody], bytes], trace: StepTrace) -> Callable[..., bytes]:
    """Processor time of a thread from one piece to the next: making it, and sending the one before.

    A thread serves one stream at a time, so what it had used at its last piece is its own.
    """
    used = threading.local()

    @functools.wraps(following)
    def timed(body: SseBody) -> bytes:
        piece = following(body)
        now = time.thread_time()
        before = getattr(used, "seconds", None)
        if before is not None and used.body is body:
            trace.add_piece(now - before)
        used.seconds, used.body = now, body
        return piece

    return timed
