"""A token as a step gives it to the host."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SampledToken:
    """A sampled token.

    Attributes:
        id: its token id.
        logprob: natural logarithm of its probability before any sampling parameter is applied;
            None where it was not asked for.
        alternatives: (token id, logprob) of the likeliest tokens at its place, best first.
        finite: whether the model's scores were numbers; if not, the token means nothing.
    """

    id: int
    logprob: float | None = None
    alternatives: tuple[tuple[int, float], ...] = ()
    finite: bool = True
