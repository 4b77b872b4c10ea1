"""What the engine says while it generates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

FinishReason: TypeAlias = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one completion (reference, `usage`).

    Attributes:
        prompt_tokens: tokens of the rendered prompt.
        completion_tokens: tokens sampled, a closing end token included.
        cached_tokens: prompt tokens whose KV was reused rather than computed.
        kv_used: tokens whose KV the conversation holds at the turn's end.
        kv_cap: the effective window in tokens at the turn's end.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    kv_used: int
    kv_cap: int


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More of the answer: whole characters, never empty, never part of a stop string."""

    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event of a completion."""

    finish_reason: FinishReason
    usage: Usage


@dataclass(frozen=True, slots=True)
class Failed:
    """The last event of a completion whose generation failed after it was admitted."""

    message: str


Event: TypeAlias = TextDelta | Finished | Failed
