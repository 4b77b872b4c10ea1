"""Time to the first token of the tenth turn of a long conversation, warm and cold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bench.errors import BenchError
from bench.goals import Goal, Measure
from bench.prompts import Prompts
from bench.servers import Server
from bench.streaming import Answer, ask_chat
from bench.workloads import WordLengths

TURNS: Final = 10
PROMPT_TOKENS: Final = 6000
NEW_TOKENS: Final = 100
"""Of the user's message in every turn but the first, which brings the document."""

CONTEXT: Final = 8192
_ANSWER_TOKENS: Final = 32
_SESSION: Final = "conversation"


@dataclass(frozen=True, slots=True)
class Turns:
    """A conversation as it went, and its last prompt once more without a cache."""

    answers: tuple[Answer, ...]
    cold: Answer

    @property
    def warm(self) -> Answer:
        """The last turn."""
        return self.answers[-1]

    @property
    def share(self) -> float:
        """Time to the first token, warm by cold."""
        return self.warm.first_token_seconds / self.cold.first_token_seconds

    def details(self) -> dict[str, Any]:
        """What was computed and what not, as JSON."""
        return {
            "prompt_tokens": self.warm.prompt_tokens,
            "cached_tokens": _cached(self.warm),
            "prompt_tokens_cold": self.cold.prompt_tokens,
            "cached_tokens_cold": _cached(self.cold),
            "first_token_seconds": [
                round(answer.first_token_seconds, 4) for answer in self.answers
            ],
        }


def measures(ours: Turns, theirs: Turns) -> tuple[Measure, ...]:
    """What the two conversations show."""
    last = f"turn {TURNS} of {PROMPT_TOKENS} tokens, {NEW_TOKENS} of them new"
    return (
        Measure(
            f"{last}: first token",
            "s",
            ours.warm.first_token_seconds,
            peer=theirs.warm.first_token_seconds,
            details={"pantheon_turns": ours.details(), "peer_turns": theirs.details()},
        ),
        Measure(
            "the same prompt without a cache: first token",
            "s",
            ours.cold.first_token_seconds,
            peer=theirs.cold.first_token_seconds,
        ),
        Measure("warm by cold", "", ours.share, Goal(1 / 20), peer=theirs.share),
    )


def converse(
    server: Server, lengths: WordLengths, session: Mapping[str, Any], cold: Mapping[str, Any]
) -> Turns:
    """Have the conversation, each answer sent back as it came; then its last prompt cold.

    Args:
        session: members of the body that let a turn continue the last one.
        cold: those that have everything computed.

    Raises:
        BenchError: a request fails, or cold or warm are not what they are called.
    """
    source = Prompts(seed=10)
    messages: list[dict[str, str]] = []
    answers: list[Answer] = []
    document = PROMPT_TOKENS - (TURNS - 1) * (NEW_TOKENS + _ANSWER_TOKENS)
    for turn in range(TURNS):
        words = source.words(lengths.words(NEW_TOKENS if turn else document))
        messages.append({"role": "user", "content": words})
        answers.append(ask_chat(server, messages, _ANSWER_TOKENS, session))
        print(
            f"{server.name}: turn {turn + 1} of {answers[-1].prompt_tokens} tokens, "
            f"{_cached(answers[-1])} cached: first token after "
            f"{answers[-1].first_token_seconds:.3f} s",
            flush=True,
        )
        if turn < TURNS - 1:
            messages.append({"role": "assistant", "content": answers[-1].text})
    turns = Turns(tuple(answers), ask_chat(server, messages, _ANSWER_TOKENS, cold))
    print(
        f"{server.name}: the same prompt cold: first token after "
        f"{turns.cold.first_token_seconds:.3f} s",
        flush=True,
    )
    if _cached(turns.cold) or not _cached(turns.warm):
        raise BenchError(
            f"{server.name}: expected the last turn to use a cache and its cold run none, got "
            f"{_cached(turns.warm)} and {_cached(turns.cold)} cached tokens"
        )
    return turns


def warm_fields() -> dict[str, Any]:
    """Members of our body that name the session."""
    return {"session_id": _SESSION}


def _cached(answer: Answer) -> int:
    if answer.computed_tokens is None:
        return answer.cached_tokens
    return answer.prompt_tokens - answer.computed_tokens
