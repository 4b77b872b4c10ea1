"""Sampling parameters of one row, in the terms of the compiled step."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RowSampling:
    """How the next token of one sequence is chosen. All numbers are finite.

    Attributes:
        temperature: <= 0 chooses the argmax.
        top_p: >= 1 is off, <= 0 keeps the best token.
        top_k: <= 0 is off.
        seed: 64 bits; only its value modulo 2 ** 64 counts.
        presence_penalty: taken off the logit of every token sampled before.
        frequency_penalty: taken off once for each time it was sampled before.
        logit_bias: (token id, bias) pairs, for the whole sequence.
        top_logprobs: alternatives to report, at most `MAX_ALTERNATIVES`; None reports no
            log-probabilities.
    """

    temperature: float
    top_p: float
    top_k: int
    seed: int
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    top_logprobs: int | None = None
