"""Two servers that get the same work in turns, A B A B, so that both see the same machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from bench.errors import BenchError
from bench.latency import Waits, new_prompts, waits_of_both
from bench.machine import CpuUse, cpu_use
from bench.prompts import Prompts
from bench.rates import AnswerTooShort, same_work
from bench.servers import Server
from bench.streaming import Answer
from bench.workloads import Decode, Prefill, WordLengths, ask_at_once, prefill_of

_WARM_TOKENS: Final = 8
_TRIES: Final = 4


@dataclass(slots=True)
class Quiet:
    """How quiet the machine was.

    Attributes:
        others: cores that other processes used, on average, of each stretch that was watched.
        idle: cores that each server used in the other's turns, the most of any turn.
    """

    others: list[float] = field(default_factory=list)
    idle: dict[str, float] = field(default_factory=dict)

    def see_idle(self, server: Server, cores: float) -> None:
        """Keep what a server used while it had nothing to do."""
        self.idle[server.name] = max(self.idle.get(server.name, 0.0), cores)


class Turns:
    """The same work for both servers, one after the other."""

    def __init__(
        self, ours: Server, theirs: Server, source: Prompts, lengths: WordLengths, quiet: Quiet
    ) -> None:
        """Warm both up.

        Args:
            source: of prompts that neither server has seen.
            lengths: how many tokens those have.
            quiet: what is seen of the machine goes there.
        """
        self.servers = (ours, theirs)
        self._source = source
        self._lengths = lengths
        self._quiet = quiet
        for server in self.servers:
            ask_at_once(server, [source.words(20)], _WARM_TOKENS)
        self._before = self._used()

    def prefill(self, tokens: int) -> tuple[float, float]:
        """Prompt tokens per second of one long prompt."""
        return self._rates(prefill_of(tokens, self._lengths))

    def decode(self, rows: int, tokens: int) -> tuple[float, float]:
        """Tokens per second of `rows` answers together, `tokens` of each or more.

        Rows begin one after another, as their prompts are computed, and the first has to go on
        until the last has decoded for a while: answers are longer the more rows there are, and
        where that was not enough they are asked for again, twice as long.
        """
        workload = Decode(rows, tokens * (1 + (rows - 1) // 4), least=tokens // 3)
        for _ in range(_TRIES - 1):
            try:
                return self._rates(workload)
            except AnswerTooShort as error:
                print(f"  {workload.name}: {error}; again with longer answers", flush=True)
                workload = replace(workload, max_tokens=2 * workload.max_tokens)
        return self._rates(workload)

    def answer_stories(self, rows: int, tokens: int) -> None:
        """Have both answer `rows` requests at once, for what that leaves in memory."""
        prompts = [self._source.story() for _ in range(rows)]
        for turn in range(2):
            ask_at_once(self.servers[turn], prompts, tokens)

    def waits(self, clients: int, requests: int) -> tuple[Waits, Waits]:
        """What `clients` wait for who send `requests` each."""
        prompts = new_prompts(clients, requests, self._lengths, self._source)
        return waits_of_both(self.servers, prompts)

    def end(self) -> None:
        """Keep what other processes used since the beginning."""
        self._quiet.others.append(self._used().others_since(self._before))

    def _rates(self, workload: Prefill | Decode) -> tuple[float, float]:
        prompts = workload.prompts(self._source)
        ours, theirs = (self._answers(turn, workload, prompts) for turn in range(2))
        same_work(ours, theirs)
        return workload.rate(ours), workload.rate(theirs)

    def _answers(
        self, turn: int, workload: Prefill | Decode, prompts: Sequence[str]
    ) -> Sequence[Answer]:
        waiting = self.servers[1 - turn]
        before = cpu_use([waiting.pid])
        answers = ask_at_once(self.servers[turn], prompts, workload.max_tokens)
        after = cpu_use([waiting.pid])
        self._quiet.see_idle(
            waiting, (after.servers[0] - before.servers[0]) / (after.at - before.at)
        )
        for answer in answers:
            if answer.completion_tokens != workload.max_tokens:
                raise BenchError(
                    f"{self.servers[turn].name}: expected {workload.max_tokens} tokens, got "
                    f"{answer.completion_tokens}"
                )
        return answers

    def _used(self) -> CpuUse:
        return cpu_use([server.pid for server in self.servers])
