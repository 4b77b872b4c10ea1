"""The sampling parameters of a body, clamped as the reference says (request body)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from msgspec import UnsetType

from pantheon.engine import Sampling
from pantheon.generated.models import ChatCompletionParams

T = TypeVar("T")

MIN_TEMPERATURE: Final = 1e-6
"""Below it, dividing logits by the temperature leaves single precision; greedy is the limit."""

MAX_TEMPERATURE: Final = 1e3
"""Above it every token is equally likely."""

MAX_PENALTY: Final = 2.0
MAX_BIAS: Final = 100.0
MAX_TOP_LOGPROBS: Final = 20

_MAX_TOP_K: Final = 2**31 - 1
_SEEDS: Final = 2**63
_TOKEN_ID: Final = re.compile(r"[0-9]{1,10}", re.ASCII)


def value_or_none(value: T | UnsetType) -> T | None:
    """A member of a body, None when it is absent."""
    return None if isinstance(value, UnsetType) else value


def read_sampling(params: ChatCompletionParams) -> Sampling:
    """How tokens are chosen, for the first choice."""
    return Sampling(
        temperature=_temperature(params.temperature),
        top_p=_clamp(params.top_p, 0.0, 1.0),
        top_k=min(max(params.top_k, 0), _MAX_TOP_K),
        seed=_seed(value_or_none(params.seed)),
        presence_penalty=_clamp(params.presence_penalty, -MAX_PENALTY, MAX_PENALTY),
        frequency_penalty=_clamp(params.frequency_penalty, -MAX_PENALTY, MAX_PENALTY),
        logit_bias=_logit_bias(value_or_none(params.logit_bias) or {}),
    )


def seed_of_choice(seed: int | None, index: int) -> int | None:
    """The seed of choice `index`: `seed + index`; without one each choice draws its own."""
    return None if seed is None else (seed + index) % _SEEDS


def read_top_logprobs(params: ChatCompletionParams) -> int | None:
    """Alternatives to report for each token; None when no log-probabilities are asked for."""
    return min(max(params.top_logprobs, 0), MAX_TOP_LOGPROBS) if params.logprobs else None


def _clamp(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


def _temperature(value: float) -> float:
    return 0.0 if value < MIN_TEMPERATURE else min(value, MAX_TEMPERATURE)


def _seed(value: int | float | None) -> int | None:
    """A seed in [0, 2**63): the number without its fraction, modulo the number of seeds."""
    return None if value is None else int(value) % _SEEDS


def _logit_bias(entries: Mapping[str, Any]) -> tuple[tuple[int, float], ...]:
    """The entries whose key is a token id and whose value is a number, by token id.

    Whether an id is in the vocabulary is the engine's to say.
    """
    biases: dict[int, float] = {}
    for key, value in entries.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and _TOKEN_ID.fullmatch(key):
            # Clamped before it becomes a double, which a large integer may not fit.
            biases[int(key)] = float(min(max(value, -MAX_BIAS), MAX_BIAS))
    return tuple(biases.items())
