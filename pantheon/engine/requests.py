"""What a client asks of the engine, after parsing and before any token exists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

DEFAULT_MAX_TOKENS: Final = 1024
"""Completion length when the request gives none (reference, request body, `max_tokens`)."""

NON_POSITIVE_MAX_TOKENS: Final = 512
"""Completion length when the request asks for zero or fewer tokens (same row)."""

MAX_TOKENS_LIMIT: Final = 1_048_576
"""Upper clamp of the completion length (same row)."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is chosen from its logits (reference, request body).

    `temperature <= 0` is greedy argmax. `top_k <= 0` and `top_p >= 1` switch their filter off;
    `top_p <= 0` keeps the single best token. All numbers are finite. Without a `seed` the
    engine draws one.
    """

    temperature: float = 0.7
    top_p: float = 0.95
    top_k: int = 40
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """One chat completion.

    Attributes:
        model: the routing key; None routes to the default model.
        messages: the conversation as plain mappings with the keys a chat template reads:
            `role` and `content` (both str), where given `reasoning_content` (str).
            Strings hold no lone surrogates.
        sampling: how tokens are chosen.
        max_tokens: most tokens to generate, in [1, MAX_TOKENS_LIMIT].
        stop: non-empty strings at which the answer ends; they are not part of it.
    """

    model: str | None
    messages: tuple[Mapping[str, Any], ...]
    sampling: Sampling = field(default_factory=Sampling)
    max_tokens: int = DEFAULT_MAX_TOKENS
    stop: tuple[str, ...] = ()
