"""What the engine says while it generates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from pantheon.engine.tools import ToolCallError

LOWEST_LOGPROB: Final = -9999.0
"""Stands for minus infinity, which JSON cannot write."""

FinishReason: TypeAlias = Literal["stop", "length", "repetition_loop"]
"""Why no further token was sampled."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one completion (reference, `usage`).

    Attributes:
        prompt_tokens: tokens of the rendered prompt.
        completion_tokens: tokens sampled, a closing end token included.
        cached_tokens: prompt tokens whose KV was reused rather than computed.
        kv_used: tokens whose KV the conversation holds at the turn's end.
        kv_cap: the effective window in tokens at the turn's end.
        session_conflict: so many conversations share the session id that they displace each
            other.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    kv_used: int
    kv_cap: int
    session_conflict: bool = False


@dataclass(frozen=True, slots=True)
class TokenAlternative:
    """A token that could have been chosen.

    Attributes:
        text: the token as text, U+FFFD for bytes that are no whole characters.
        data: its bytes.
        logprob: natural logarithm of its probability before any sampling parameter is applied;
            finite, at least `LOWEST_LOGPROB`.
    """

    text: str
    data: bytes
    logprob: float


@dataclass(frozen=True, slots=True)
class TokenLogprob(TokenAlternative):
    """A token of the answer, and the likeliest ones at its place, best first."""

    alternatives: tuple[TokenAlternative, ...] = ()


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More of the answer: whole characters, never part of a stop string.

    Attributes:
        text: empty only where `logprobs` is not.
        logprobs: the tokens that this text completes, if the request asked for them: a token
            whose characters are held back comes with the delta that carries them.
    """

    text: str
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """More of the reasoning: whole characters, never empty."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallOpened:
    """A call of an offered tool began.

    Attributes:
        index: number of the call in its answer, from 0; one that fails keeps its number.
        id: unique in the conversation.
    """

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolCallArguments:
    """More of a call's arguments: those of a closed call join to the JSON text of an object."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallClosed:
    """A call is complete. A call that was opened and is never closed is none."""

    index: int


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event of a completion.

    Attributes:
        format_closed: whether a complete answer in the requested format was generated; None
            when no format was requested.
        format_relaxed: whether only a part of the requested schema was enforced.
        tool_call_error: the first call that the model began and did not complete.
    """

    finish_reason: FinishReason
    usage: Usage
    format_closed: bool | None = None
    format_relaxed: bool = False
    tool_call_error: ToolCallError | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The last event of a completion whose generation failed after it was admitted.

    Attributes:
        message: fit to be shown to a client.
        shutting_down: whether it was ended by the shutdown, and not by a fault of its own.
    """

    message: str
    shutting_down: bool = False


Delta: TypeAlias = TextDelta | ReasoningDelta | ToolCallOpened | ToolCallArguments | ToolCallClosed
"""More of an answer."""

Event: TypeAlias = Delta | Finished | Failed
