"""The race with llama.cpp: the same files, the same threads, in turns, with a goal for each row."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.goals import Goal
from bench.latency import Waits
from bench.peer import Peer
from bench.products import NativeProducts
from bench.prompts import Prompts
from bench.race_memory import MemoryReading, bare_process, memory_row
from bench.race_rows import Row
from bench.race_waits import wait_rows
from bench.resident import resident
from bench.running_stream import endless_fields
from bench.servers import Server, llama_cpp, pantheon
from bench.turns import Quiet, Turns
from bench.workloads import WordLengths

PREFILL_TOKENS: Final = 512
CONTEXT: Final = 1024
DECODE_GOALS: Final[Mapping[int, Goal]] = {
    1: Goal(1.7, at_most=False),
    2: Goal(2.5, at_most=False),
    4: Goal(3.0, at_most=False),
    8: Goal(4.0, at_most=False),
}
"""By rows."""

PREFILL_GOAL: Final = Goal(4.0, at_most=False)
START_GOAL: Final = Goal(3.0)
"""Seconds more."""

_LARGER_TOKENS: Final = 24
_FEW_TOKENS: Final = 8
_SETTINGS: Final = {
    # Answers repeat what they said, and drafts would be a race of their own.
    "PANTHEON_SPECULATION": "0",
    "PANTHEON_REPETITION_LOOP": "0",
}
_IDLE_CORES: Final = 0.05
"""Of a core, the most that the server whose turn it is not may use."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How long to measure.

    Attributes:
        rounds: pairs of samples of each rate.
        larger_rows: for which rows the larger model is served.
        larger_rounds: pairs of samples of its rates; 0 leaves them out.
        decode_tokens: tokens of the answer of a single row; those of many are longer.
        loads: requests of each client in a round, by clients.
        load_rounds: pairs of loads.
        starts: pairs of starts.
    """

    rounds: int
    larger_rows: tuple[int, ...]
    larger_rounds: int
    decode_tokens: int
    loads: Mapping[int, int]
    load_rounds: int
    starts: int


FULL: Final = Plan(
    rounds=3,
    larger_rows=(1, 8),
    larger_rounds=2,
    decode_tokens=48,
    loads={1: 6, 4: 3, 8: 2},
    load_rounds=2,
    starts=3,
)
"""Some nine minutes on two cores, half of them the peer's turns; compiling comes on top."""

QUICK: Final = Plan(
    rounds=2,
    larger_rows=(8,),
    larger_rounds=0,
    decode_tokens=24,
    loads={1: 3, 4: 1, 8: 1},
    load_rounds=1,
    starts=1,
)
"""Less than three minutes."""


@dataclass(frozen=True, slots=True)
class Finish:
    """What the race came to.

    Attributes:
        seconds: that it took.
    """

    rows: tuple[Row, ...]
    quiet: Quiet
    seconds: float

    def warnings(self) -> tuple[str, ...]:
        """What makes the numbers doubtful."""
        found = [
            f"{name} used {cores:.2f} cores in the other's turns"
            for name, cores in self.quiet.idle.items()
            if cores > _IDLE_CORES
        ]
        others = max(self.quiet.others)
        if others > _IDLE_CORES:
            found.append(f"other processes used up to {others:.2f} cores meanwhile")
        return tuple(found)

    def record(self) -> dict[str, Any]:
        """The race as JSON."""
        return {
            "rows": [row.record() for row in self.rows],
            "others_cores": [round(cores, 3) for cores in self.quiet.others],
            "idle_cores": {name: round(cores, 3) for name, cores in self.quiet.idle.items()},
            "seconds": round(self.seconds),
        }


def run_race(root: Path, peer: Peer, model: Path, larger: Path, plan: Plan, folder: Path) -> Finish:
    """Measure every row.

    Args:
        folder: for the servers' logs.

    Raises:
        BenchError: a server fails, or they do not do the same work.
    """
    began = time.monotonic()
    race = _Race(root, peer, plan, folder)
    rows = (*race.served(model), *race.starts(model), *race.larger(larger))
    return Finish(rows, race.quiet, time.monotonic() - began)


class _Race:
    def __init__(self, root: Path, peer: Peer, plan: Plan, folder: Path) -> None:
        self._root = root
        self._peer = peer
        self._plan = plan
        self._folder = folder
        self._prompts = Prompts(seed=0)
        self._lengths: WordLengths | None = None
        self.quiet = Quiet()

    def served(self, model: Path) -> list[Row]:
        """Rates and waits of the small model, by rows and clients.

        Pantheon serves eight rows throughout; the peer is started with a slot for each row.
        """
        rows: list[Row] = []
        waits: list[Row] = []
        products = NativeProducts.where_built(model)
        with self._ours(model, max(DECODE_GOALS)) as ours:
            for count in DECODE_GOALS:
                with self._theirs(model, count) as theirs, self._turns((ours, theirs)) as turns:
                    rows += self._rates(
                        turns, products, count, self._plan.rounds, self._plan.decode_tokens, ""
                    )
                    if count in self._plan.loads:
                        waits += wait_rows(count, self._loads(turns, count))
        return rows + waits

    def starts(self, model: Path) -> list[Row]:
        """From the start of a process to its first answer."""
        rows = max(DECODE_GOALS)
        samples = []
        for _ in range(self._plan.starts):
            with self._ours(model, rows) as ours:
                pass
            with self._theirs(model, rows) as theirs:
                pass
            samples.append((ours.ready_seconds, theirs.ready_seconds))
        name = "start to ready, caches warm"
        return [Row.of_samples(name, "s", samples, START_GOAL, is_difference=True)]

    def larger(self, model: Path) -> list[Row]:
        """Memory, and rates where the plan has rounds for them, of the larger model."""
        rows: list[Row] = []
        with bare_process(self._root, self._folder / "bare.log") as pid:
            bare = resident(pid)
        rounds = self._plan.larger_rounds
        products = NativeProducts.where_built(model) if rounds else None
        memory: list[Row] = []
        for count in self._plan.larger_rows:
            with self._theirs(model, count) as theirs, self._ours(model, count) as ours:
                servers = (ours, theirs)
                loaded = [resident(server.pid) for server in servers]
                with self._turns(servers) as turns:
                    if rounds:
                        rows += self._rates(
                            turns, products, count, rounds, _LARGER_TOKENS, "larger: "
                        )
                    else:
                        turns.answer_stories(count, _FEW_TOKENS)
                used = [resident(server.pid) for server in servers]
            readings = [MemoryReading(*both) for both in zip(loaded, used, strict=True)]
            memory.append(memory_row(count, CONTEXT, bare, *readings))
        return rows + memory

    def _rates(
        self,
        turns: Turns,
        products: NativeProducts | None,
        count: int,
        rounds: int,
        tokens: int,
        prefix: str,
    ) -> list[Row]:
        """Rates of `count` rows; of one, also that of a prefill.

        Args:
            products: the probe, measured after each pair while both servers rest.
        """
        prefills, decodes = [], []
        of_prefill, of_decode = [], []
        for number in range(rounds):
            if count == 1:
                prefills.append(turns.prefill(PREFILL_TOKENS))
            decodes.append(turns.decode(count, tokens))
            if products is not None:
                of_decode.append(count / products.seconds(count, count))
            if products is not None and count == 1:
                of_prefill.append(PREFILL_TOKENS / products.seconds(PREFILL_TOKENS, 1))
            seen = [pairs[-1] for pairs in (prefills, decodes) if pairs]
            rates = ", ".join(f"{ours:.1f} : {theirs:.1f}" for ours, theirs in seen)
            print(f"  round {number + 1}/{rounds}: {rates} tok/s", flush=True)
        name = f"{prefix}decode {count} row{'s' if count > 1 else ''}"
        rows = [Row.of_samples(name, "tok/s", decodes, DECODE_GOALS[count], probes=of_decode)]
        if prefills:
            name = f"{prefix}prefill {PREFILL_TOKENS} tokens"
            rows.insert(0, Row.of_samples(name, "tok/s", prefills, PREFILL_GOAL, probes=of_prefill))
        return rows

    def _loads(self, turns: Turns, clients: int) -> list[tuple[Waits, Waits]]:
        requests = self._plan.loads[clients]
        rounds = self._plan.load_rounds
        print(f"  {clients} client(s), {rounds} x {requests} requests of each", flush=True)
        return [turns.waits(clients, requests) for _ in range(rounds)]

    @contextmanager
    def _turns(self, servers: tuple[Server, Server]) -> Iterator[Turns]:
        if self._lengths is None:
            # Both models have the same tokenizer and template.
            self._lengths = WordLengths.of(servers[0], self._prompts)
        turns = Turns(*servers, self._prompts, self._lengths, self.quiet)
        yield turns
        turns.end()

    def _ours(self, model: Path, rows: int) -> AbstractContextManager[Server]:
        print(f"{model.name}, {rows} row(s)", flush=True)
        log = self._folder / "pantheon.log"
        return pantheon(self._root, model, rows, CONTEXT, log, _SETTINGS, endless_fields(model))

    def _theirs(self, model: Path, rows: int) -> AbstractContextManager[Server]:
        print(f"{model.name}, {rows} row(s)", flush=True)
        log = self._folder / "llama.log"
        return llama_cpp(self._peer, model, rows, CONTEXT, log, extra={"ignore_eos": True})
