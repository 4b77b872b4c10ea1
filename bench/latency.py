"""What the clients of a loaded server wait for: the first token, and each one after it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from bench.errors import BenchError
from bench.prompts import Prompts
from bench.rates import same_work
from bench.servers import Server
from bench.streaming import Answer, ask
from bench.workloads import WordLengths

PROMPT_TOKENS: Final = 200
ANSWER_TOKENS: Final = 64


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds, of all requests of a load, in no order.

    Attributes:
        first: from sending a request to its first text.
        gaps: between two pieces of text of one answer.
    """

    first: tuple[float, ...]
    gaps: tuple[float, ...]

    @staticmethod
    def of(answers: Sequence[Answer]) -> Waits:
        """The waits of answers."""
        return Waits(
            tuple(answer.first_token_seconds for answer in answers),
            tuple(
                after - before
                for answer in answers
                for before, after in itertools.pairwise(answer.chunks)
            ),
        )

    def __add__(self, other: Waits) -> Waits:
        return Waits(self.first + other.first, self.gaps + other.gaps)


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` of all do not exceed (nearest rank).

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("expected at least one value, got none")
    rank = max(1, math.ceil(percent / 100 * len(values)))
    return sorted(values)[rank - 1]


def new_prompts(
    clients: int, requests: int, lengths: WordLengths, source: Prompts
) -> list[list[str]]:
    """Prompts of about `PROMPT_TOKENS` tokens for each client, in its order; no two alike."""
    words = lengths.words(PROMPT_TOKENS - lengths.template)
    return [[source.words(words) for _ in range(requests)] for _ in range(clients)]


def answer_clients(server: Server, prompts: Sequence[Sequence[str]]) -> list[list[Answer]]:
    """Let clients send their prompts, each the next one when the one before is answered.

    Raises:
        BenchError: a request fails.
    """

    def client(own: Sequence[str]) -> list[Answer]:
        return [ask(server, prompt, ANSWER_TOKENS) for prompt in own]

    threads = ThreadPoolExecutor(len(prompts))
    try:
        return list(threads.map(client, prompts))
    finally:
        # Not waited for: after Ctrl-C the server's end is what ends them.
        threads.shutdown(wait=False, cancel_futures=True)


def waits_of_both(
    servers: Sequence[Server], prompts: Sequence[Sequence[str]]
) -> tuple[Waits, Waits]:
    """Give the same load to both servers in turn.

    Raises:
        BenchError: a request fails, or the servers do not do the same work.
    """
    ours, theirs = (
        [answer for answers in answer_clients(server, prompts) for answer in answers]
        for server in servers
    )
    same_work(ours, theirs)
    lengths = {answer.completion_tokens for answer in (*ours, *theirs)}
    if lengths != {ANSWER_TOKENS}:
        raise BenchError(f"expected answers of {ANSWER_TOKENS} tokens, got {sorted(lengths)}")
    return Waits.of(ours), Waits.of(theirs)
