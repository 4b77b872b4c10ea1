"""What a client asks of the engine, after parsing and before any token exists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pantheon.engine.tools import Tool

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

    Attributes:
        presence_penalty: taken off the logit of every token of the answer so far, in [-2, 2].
        frequency_penalty: taken off once for each time it occurred there, in [-2, 2].
        logit_bias: (token id, bias in [-100, 100]) pairs; an id outside the vocabulary has no
            effect.
    """

    temperature: float = 0.7
    top_p: float = 0.95
    top_k: int = 40
    seed: int | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class JsonFormat:
    """The answer must be one JSON object (reference, `response_format`).

    Attributes:
        schema: a JSON Schema that it must satisfy too; None for any object.
    """

    schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ToolUse:
    """Tools that the answer may call (reference, `tools` and `tool_choice`).

    Attributes:
        tools: one or more, of different names.
        required: whether the answer must be a call.
        name: the tool that `tool_choice` names; None for any.
    """

    tools: tuple[Tool, ...]
    required: bool = False
    name: str | None = None


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """One chat completion.

    Attributes:
        model: the routing key; None routes to the default model.
        messages: the conversation as plain mappings with the keys a chat template reads:
            `role` and `content` (both str), where given `reasoning_content` (str) and
            `tool_calls` (a list of whatever was sent). Strings hold no lone surrogates.
        sampling: how tokens are chosen.
        max_tokens: most tokens to generate, in [1, MAX_TOKENS_LIMIT].
        stop: non-empty strings at which the answer ends; they are not part of it.
        top_logprobs: alternatives to report for each token of the answer, in [0, 20]; None
            reports no log-probabilities at all.
        tool_use: the tools on offer; None for none, also where the conversation has calls.
        response_format: what the answer's form is constrained to; None leaves it free.
        enable_thinking: for think-style templates, True opens a think block and False prefills
            a closed one; None leaves it to the engine's configuration.
        reasoning_budget: most reasoning tokens before the block is closed by force; 0 or less
            switches it off, None takes the model's own.
        session_id: the session whose cache the turn resumes from and adds to, not empty; None
            reuses nothing and leaves nothing behind.
    """

    model: str | None
    messages: tuple[Mapping[str, Any], ...]
    sampling: Sampling = field(default_factory=Sampling)
    max_tokens: int = DEFAULT_MAX_TOKENS
    stop: tuple[str, ...] = ()
    top_logprobs: int | None = None
    tool_use: ToolUse | None = None
    response_format: JsonFormat | None = None
    enable_thinking: bool | None = None
    reasoning_budget: int | None = None
    session_id: str | None = None
