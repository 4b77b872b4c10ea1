"""What a decode step of eight rows costs beside the device's work."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Final

import psutil

from bench.errors import BenchError
from bench.goals import Goal, Measure
from bench.prompts import Prompts
from bench.servers import Server, ready_server
from bench.streaming import Answer
from bench.stub_model import ROWS, stub_model
from bench.workloads import ask_at_once
from pantheon.engine.config import EngineConfig
from pantheon.engine.events import Failed, Finished
from pantheon.engine.face import Completion
from pantheon.engine.requests import CompletionRequest, Sampling

STEP_MS: Final = 5.0
"""Of the stub device: a fast one, which leaves the host little time to hide in."""

_STEPS: Final = 2000
_POLL_SECONDS: Final = 0.1
_GOAL: Final = Goal(1.0)


def host_part(file: Path) -> Measure:
    """Time from one step's dispatch to the next over a device that takes no time at all.

    Plan, dispatch, collect, and for each of eight rows the detokeniser, the end conditions and
    the event, while eight threads take the events as handlers do; no HTTP. Nothing of it is
    hidden behind the device, as it is in a server.
    """
    instance, device = stub_model(file, EngineConfig((), "cpu", "bench"), 0.0)
    source = Prompts(seed=9)
    try:
        takers = []
        for _ in range(ROWS):
            completion = instance.submit(
                CompletionRequest(
                    model=None,
                    messages=({"role": "user", "content": source.story()},),
                    max_tokens=_STEPS,
                    sampling=Sampling(temperature=0),
                )
            )
            takers.append(threading.Thread(target=_take, args=(completion,)))
            takers[-1].start()
        for taker in takers:
            taker.join()
    finally:
        instance.close()
    times = device.dispatched
    steps = [1000 * (b - a) for a, b in itertools.pairwise(times)]
    if len(steps) < _STEPS // 2:
        raise BenchError(f"expected most of {_STEPS} steps to have {ROWS} rows, got {len(steps)}")
    return Measure(
        f"host's part of a step, {ROWS} rows, no HTTP",
        "ms",
        sum(steps) / len(steps),
        _GOAL,
        details={
            "steps": len(steps),
            "median": round(median(steps), 4),
            "p99": round(quantiles(steps, n=100)[98], 4),
        },
    )


def over_http(root: Path, file: Path, log: Path) -> tuple[Measure, ...]:
    """Step time less device time as the clients of eight streams see it, and what a step takes.

    The server is the real one over the stub device, whose steps take 5 ms of sleep: a step is
    longer where the host has not dispatched the next one in time.
    """
    source = Prompts(seed=11)
    with _stub_server(root, file, log) as server:
        ask_at_once(server, [source.story() for _ in range(ROWS)], 50)
        before = _processor_seconds(server.pid)
        answers = ask_at_once(server, [source.story() for _ in range(ROWS)], _STEPS)
        used = _processor_seconds(server.pid) - before
    if any(answer.completion_tokens != _STEPS for answer in answers):
        raise BenchError(f"expected answers of {_STEPS} tokens of the stub device")
    steps = [_step_ms(answer) for answer in answers]
    return (
        Measure(
            f"step less device time ({STEP_MS:g} ms) over HTTP, {ROWS} streams",
            "ms",
            max(steps) - STEP_MS,
            _GOAL,
            details={"step_ms": [round(step, 4) for step in steps]},
        ),
        Measure(
            f"processor time of the server for a step, {ROWS} streams", "ms", 1000 * used / _STEPS
        ),
    )


def _take(completion: Completion) -> None:
    while not isinstance(completion.next_event(_POLL_SECONDS), (Finished, Failed)):
        pass


def _step_ms(answer: Answer) -> float:
    """Milliseconds from one token to the next, on average."""
    stretch = answer.chunks[-1] - answer.chunks[0]
    return 1000 * stretch / (len(answer.chunks) - 1) * len(answer.chunks) / _STEPS


@contextmanager
def _stub_server(root: Path, file: Path, log: Path) -> Iterator[Server]:
    command = (
        *(sys.executable, "-m", "gunicorn", "-c", str(root / "gunicorn.conf.py")),
        "bench.stub_app",
    )
    environment = {"BENCH_MODEL": str(file), "BENCH_STEP_MS": str(STEP_MS)}
    with ready_server("stub", root, command, environment, log) as server:
        yield server


def _processor_seconds(pid: int) -> float:
    process = psutil.Process(pid)
    times = [one.cpu_times() for one in (process, *process.children(recursive=True))]
    return float(sum(one.user + one.system for one in times))
