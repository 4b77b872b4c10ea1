"""What a long prefill leaves of the rate of an answer that runs beside it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bench.goals import Goal, Measure
from bench.prompts import Prompts
from bench.running_stream import RunningStream
from bench.servers import Server
from bench.streaming import ask
from bench.workloads import WordLengths

PREFILL_TOKENS: Final = 4000
CONTEXT: Final = 8192
ROWS: Final = 2
_ALONE_TEXTS: Final = 120
_START_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class Beside:
    """Rates in texts per second, the rest in seconds and tokens."""

    alone: float
    beside: float
    longest_gap: float
    prefill_seconds: float
    prefill_tokens: int

    @property
    def share(self) -> float:
        """Of its rate alone, what the stream kept."""
        return self.beside / self.alone

    def details(self) -> dict[str, Any]:
        """The numbers as JSON."""
        return {
            "alone_per_s": round(self.alone, 3),
            "beside_per_s": round(self.beside, 3),
            "prefill_seconds": round(self.prefill_seconds, 3),
            "prefill_tokens": self.prefill_tokens,
        }


def measures(ours: Beside, theirs: Beside) -> tuple[Measure, ...]:
    """What the two servers show."""
    return (
        Measure(
            f"stream beside a prefill of {PREFILL_TOKENS} tokens: share of its rate alone",
            "",
            ours.share,
            Goal(0.5, at_most=False),
            peer=theirs.share,
            details={"pantheon_rates": ours.details(), "peer_rates": theirs.details()},
        ),
        Measure("its longest gap meanwhile", "s", ours.longest_gap, peer=theirs.longest_gap),
        Measure(
            "first token of that prompt", "s", ours.prefill_seconds, peer=theirs.prefill_seconds
        ),
    )


def stream_beside_prefill(
    server: Server, lengths: WordLengths, endless: Mapping[str, Any]
) -> Beside:
    """Let a stream run alone and then beside the prefill of one long prompt.

    Args:
        endless: members of the stream's body that keep it from ending.

    Raises:
        BenchError: a request fails or the stream ends early.
    """
    source = Prompts(seed=4)
    prompt = source.words(lengths.words(PREFILL_TOKENS - lengths.template))
    with RunningStream(server, source.story(), CONTEXT // 2, endless) as stream:
        stream.wait_for(_ALONE_TEXTS, _START_SECONDS)
        alone = stream.texts()
        answer = ask(server, prompt, 1)
        stream.check()
        began, ended = answer.sent, answer.sent + answer.first_token_seconds
        inside = [at for at in stream.texts() if began <= at <= ended]
    # The edges count as well: the stream may stand still from the first moment to the last.
    times = [began, *inside, ended]
    found = Beside(
        alone=(len(alone) - 1) / (alone[-1] - alone[0]),
        beside=len(inside) / (ended - began),
        longest_gap=max(after - before for before, after in itertools.pairwise(times)),
        prefill_seconds=answer.first_token_seconds,
        prefill_tokens=answer.prompt_tokens,
    )
    print(
        f"{server.name}: {found.alone:.1f} texts/s alone, {found.beside:.1f} beside a prefill of "
        f"{found.prefill_tokens} tokens in {found.prefill_seconds:.1f} s, longest gap "
        f"{found.longest_gap:.2f} s",
        flush=True,
    )
    return found
