"""What both servers are asked to do."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from bench.prompts import Prompts
from bench.rates import decode_rate, prefill_rate
from bench.servers import Server
from bench.streaming import Answer, ask

_PROBES: Final = (64, 320)
"""Words of the prompts that show how many tokens a word has."""


@dataclass(frozen=True, slots=True)
class Prefill:
    """One prompt of about `tokens` tokens, written in `words` words."""

    tokens: int
    words: int
    max_tokens: int = 1

    @property
    def name(self) -> str:
        """How the report calls it."""
        return f"prefill {self.tokens} tokens"

    def prompts(self, source: Prompts) -> tuple[str, ...]:
        """A new prompt."""
        return (source.words(self.words),)

    def rate(self, answers: Sequence[Answer]) -> float:
        """Tokens per second."""
        (answer,) = answers
        return prefill_rate(answer)


@dataclass(frozen=True, slots=True)
class Decode:
    """`rows` answers at once.

    Attributes:
        max_tokens: of each answer.
        least: tokens of each that are decoded beside all others.
    """

    rows: int
    max_tokens: int
    least: int

    @property
    def name(self) -> str:
        """How the report calls it."""
        return f"decode {self.rows} row{'s' if self.rows > 1 else ''}"

    def prompts(self, source: Prompts) -> tuple[str, ...]:
        """New prompts, to be sent at once."""
        return tuple(source.story() for _ in range(self.rows))

    def rate(self, answers: Sequence[Answer]) -> float:
        """Tokens per second. Raises AnswerTooShort where the answers do not tell."""
        return decode_rate(answers, self.least)


def ask_at_once(server: Server, prompts: Sequence[str], max_tokens: int) -> tuple[Answer, ...]:
    """Send each prompt on a connection of its own, all at once."""
    threads = ThreadPoolExecutor(len(prompts))
    try:
        return tuple(threads.map(lambda prompt: ask(server, prompt, max_tokens), prompts))
    finally:
        # Not waited for: after Ctrl-C the server's end is what ends them.
        threads.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True, slots=True)
class WordLengths:
    """How many tokens prompts of words have: those of the template, and of each word."""

    template: float
    per_word: float

    @staticmethod
    def of(server: Server, source: Prompts) -> WordLengths:
        """Ask a server for the lengths of two prompts."""
        small, large = _PROBES
        counts = [ask(server, source.words(words), 1).prompt_tokens for words in _PROBES]
        per_word = (counts[1] - counts[0]) / (large - small)
        return WordLengths(counts[0] - small * per_word, per_word)

    def words(self, tokens: float) -> int:
        """Words of about `tokens` tokens, without a template's."""
        return max(1, round(tokens / self.per_word))


def prefill_of(tokens: int, lengths: WordLengths) -> Prefill:
    """A prefill of as near to `tokens` tokens as whole words come, chat template included."""
    return Prefill(tokens, lengths.words(tokens - lengths.template))
