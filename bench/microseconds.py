"""Where each microsecond of a decode step goes, on the real model over HTTP."""

from __future__ import annotations

import http.client
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.errors import BenchError
from bench.prompts import Prompts
from bench.running_stream import endless_fields
from bench.sampling_time import sampling_seconds
from bench.servers import HOST, Server, ready_server
from bench.step_trace import PARTS
from bench.text_table import text_table
from bench.workloads import ask_at_once

ROWS: Final = (1, 8)
LABELS: Final = {
    "plan": "plan",
    "dispatch": "arguments, dispatch",
    "device": "waiting for the device",
    "tokens": "detokenise, events",
    "rest": "rest of the loop",
}
_CONTEXT: Final = 1024
_LEAST_TURNS: Final = 10
_ASK_SECONDS: Final = 30.0
_SETTINGS: Final = {"PANTHEON_SPECULATION": "0", "PANTHEON_REPETITION_LOOP": "0"}


@dataclass(frozen=True, slots=True)
class StepParts:
    """Medians of steady decode steps, in microseconds.

    Attributes:
        parts: of the loop's turn, by name, of `PARTS`; `device` is the wait for it.
        rest: what is left of the turn.
        sampling: of the device's time, measured alone.
        http: processor time of the threads that make and send the pieces of a step, beside the
            loop.
        turns: how many there were.
    """

    rows: int
    parts: dict[str, float]
    rest: float
    sampling: float
    http: float
    turns: int

    @property
    def whole(self) -> float:
        """Of a turn."""
        return sum(self.parts.values()) + self.rest

    def record(self) -> dict[str, Any]:
        """The numbers as JSON."""
        return {
            "rows": self.rows,
            **{name: round(value, 1) for name, value in self.parts.items()},
            "rest": round(self.rest, 1),
            "whole": round(self.whole, 1),
            "sampling": round(self.sampling, 1),
            "http": round(self.http, 1),
            "turns": self.turns,
        }


def measure_steps(root: Path, model: Path, tokens: int, log: Path) -> list[StepParts]:
    """Serve the model traced, and let clients decode answers of `tokens` tokens.

    Raises:
        BenchError: the server fails, or there were too few steps.
    """
    return [_measure(root, model, rows, tokens, log) for rows in ROWS]


def _measure(root: Path, model: Path, rows: int, tokens: int, log: Path) -> StepParts:
    command = (
        *(sys.executable, "-m", "gunicorn", "-c", str(root / "gunicorn.conf.py")),
        "bench.traced_app",
    )
    served = f"path={model},ctx_cap={_CONTEXT},max_sessions={rows},max_concurrent={rows}"
    settings = {**_SETTINGS, "PANTHEON_MODELS": served}
    source = Prompts(seed=12)
    with ready_server("traced", root, command, settings, log) as server:
        endless = Server(
            server.name, server.port, server.pid, endless_fields(model), server.ready_seconds
        )
        ask_at_once(endless, [source.story() for _ in range(rows)], tokens)
        report = _report(server, rows)
    if report["turns"] < _LEAST_TURNS:
        raise BenchError(
            f"expected at least {_LEAST_TURNS} steps of {rows} rows, got {report['turns']}"
        )
    parts = {name: 1e6 * report["parts"][name] for name in PARTS}
    return StepParts(
        rows=rows,
        parts=parts,
        rest=max(0.0, 1e6 * report["whole"] - sum(parts.values())),
        sampling=1e6 * sampling_seconds(model, rows),
        http=1e6 * report["http_per_piece"] * rows,
        turns=report["turns"],
    )


def _report(server: Server, rows: int) -> dict[str, Any]:
    connection = http.client.HTTPConnection(HOST, server.port, timeout=_ASK_SECONDS)
    try:
        connection.request("GET", f"/bench/trace?{rows}")
        found: dict[str, Any] = json.loads(connection.getresponse().read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise BenchError(f"the traced server told no trace: {error!r}") from error
    finally:
        connection.close()
    return found


def step_table(found: Sequence[StepParts]) -> str:
    """The parts as a text table: a column for each number of rows."""
    head = ("microseconds of a step", *(f"{one.rows} row(s)" for one in found))
    numbers = [
        *((LABELS[name], [one.parts[name] for one in found]) for name in PARTS),
        (LABELS["rest"], [one.rest for one in found]),
        ("= from step to step", [one.whole for one in found]),
        ("sampling, within the device's", [one.sampling for one in found]),
        ("HTTP, on other threads", [one.http for one in found]),
    ]
    return text_table(
        [head, *((name, *(f"{value:,.0f}" for value in values)) for name, values in numbers)]
    )
