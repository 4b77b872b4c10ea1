"""Pantheon beside llama.cpp, both served over HTTP, in turns."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.comparison import Comparison
from bench.errors import BenchError
from bench.machine import cpu_use
from bench.peer import Peer
from bench.prompts import Prompts
from bench.rates import AnswerTooShort, same_work
from bench.servers import Server, llama_cpp, pantheon
from bench.streaming import Answer
from bench.workloads import Decode, Workload, ask_at_once, prefill_of

PREFILL_TOKENS: Final = 512
ROWS: Final = (1, 2, 4, 8)
CONTEXT: Final = 1024
_WARM_TOKENS: Final = 8
_TRIES: Final = 5
_IDLE_CORES: Final = 0.05
"""Of a core, the most that the server whose turn it is not may use."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How long to measure.

    Attributes:
        rounds: pairs of samples of each workload.
        decode_tokens: completion tokens of each row.
    """

    rounds: int
    decode_tokens: int


@dataclass(frozen=True, slots=True)
class Result:
    """The comparisons and what the run was like.

    Attributes:
        others: cores that other processes used meanwhile, on average.
        idle: cores that each server used in the other's turns, the most of any turn.
    """

    comparisons: tuple[Comparison, ...]
    others: float
    idle: dict[str, float]

    def warnings(self) -> tuple[str, ...]:
        """What makes the numbers doubtful."""
        found = [
            f"{name} used {cores:.2f} cores in the other's turns"
            for name, cores in self.idle.items()
            if cores > _IDLE_CORES
        ]
        if self.others > _IDLE_CORES:
            found.append(f"other processes used {self.others:.2f} cores meanwhile")
        return tuple(found)

    def record(self) -> dict[str, Any]:
        """The result as JSON."""
        return {
            "workloads": [comparison.record() for comparison in self.comparisons],
            "others_cores": round(self.others, 3),
            "idle_cores": {name: round(cores, 3) for name, cores in self.idle.items()},
        }


def compare(root: Path, peer: Peer, model: Path, plan: Plan) -> Result:
    """Start both servers on `model`, measure every workload in turns, end both.

    Raises:
        BenchError: a server fails, or they do not do the same work.
    """
    rows = max(ROWS)
    with (
        tempfile.TemporaryDirectory() as folder,
        llama_cpp(peer, model, rows, CONTEXT, Path(folder) / "llama.log") as theirs,
        pantheon(root, model, rows, CONTEXT, Path(folder) / "pantheon.log") as ours,
    ):
        return _Race(ours, theirs).run(plan)


class _Race:
    def __init__(self, ours: Server, theirs: Server) -> None:
        self._servers = (ours, theirs)
        self._prompts = Prompts(seed=0)
        self._idle = {ours.name: 0.0, theirs.name: 0.0}

    def run(self, plan: Plan) -> Result:
        print("warming up", flush=True)
        workloads: Sequence[Workload] = (
            prefill_of(PREFILL_TOKENS, self._servers[1], self._prompts),
            *(Decode(rows, plan.decode_tokens) for rows in ROWS),
        )
        for workload in workloads:
            prompts = workload.prompts(self._prompts)
            for server in self._servers:
                ask_at_once(server, prompts, min(workload.max_tokens, _WARM_TOKENS))
        samples: list[list[tuple[float, float]]] = [[] for _ in workloads]
        before = cpu_use([server.pid for server in self._servers])
        for number in range(plan.rounds):
            for workload, pairs in zip(workloads, samples, strict=True):
                ours, theirs = self._pair(workload)
                pairs.append((ours, theirs))
                print(
                    f"round {number + 1}/{plan.rounds}  {workload.name}: pantheon {ours:.1f}, "
                    f"llama.cpp {theirs:.1f} tok/s",
                    flush=True,
                )
        after = cpu_use([server.pid for server in self._servers])
        comparisons = tuple(
            Comparison(workload.name, *(tuple(side) for side in zip(*pairs, strict=True)))
            for workload, pairs in zip(workloads, samples, strict=True)
        )
        return Result(comparisons, after.others_since(before), self._idle)

    def _pair(self, workload: Workload) -> tuple[float, float]:
        for _ in range(_TRIES):
            prompts = workload.prompts(self._prompts)
            answers = [self._turn(turn, workload, prompts) for turn in range(2)]
            same_work(*answers)
            try:
                ours, theirs = (workload.rate(answer) for answer in answers)
            except AnswerTooShort as error:
                print(f"  {workload.name}: {error}; again with other prompts", flush=True)
                continue
            return ours, theirs
        raise BenchError(f"{workload.name}: no long enough answers in {_TRIES} tries")

    def _turn(self, turn: int, workload: Workload, prompts: Sequence[str]) -> Sequence[Answer]:
        waiting = self._servers[1 - turn]
        before = cpu_use([waiting.pid])
        answers = ask_at_once(self._servers[turn], prompts, workload.max_tokens)
        after = cpu_use([waiting.pid])
        cores = (after.servers[0] - before.servers[0]) / (after.at - before.at)
        self._idle[waiting.name] = max(self._idle[waiting.name], cores)
        return answers
