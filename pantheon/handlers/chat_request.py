"""From the body of a chat completion to what the engine is asked (reference, request body)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from msgspec import UNSET, UnsetType

from pantheon.engine import CompletionRequest
from pantheon.engine.requests import (
    DEFAULT_MAX_TOKENS,
    MAX_TOKENS_LIMIT,
    NON_POSITIVE_MAX_TOKENS,
)
from pantheon.generated.models import ChatCompletionParams, ChatMessage
from pantheon.handlers.response_format import FormatPlan, read_response_format
from pantheon.handlers.sampling_params import (
    read_sampling,
    read_top_logprobs,
    seed_of_choice,
    value_or_none,
)
from pantheon.handlers.session_id import first_session_id
from pantheon.handlers.tool_calls import read_tool_use

MAX_CHOICES: Final = 8
"""Most choices of one request (reference, `n`)."""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a body asks for.

    Attributes:
        completions: what the engine answers, one for each choice; they differ in their seeds,
            and only the first uses the session (reference, `n`).
        is_capped: the body asked for more choices than `MAX_CHOICES`.
        format: what is done about the response format.
        stream: answer with server-sent events.
        include_usage: end the stream with a usage chunk.
        unread_content: some message has a content that is no string and was read as empty.
    """

    completions: tuple[CompletionRequest, ...]
    is_capped: bool
    format: FormatPlan
    stream: bool
    include_usage: bool
    unread_content: bool

    @property
    def has_logprobs(self) -> bool:
        """Whether log-probabilities are asked for."""
        return self.completions[0].top_logprobs is not None


def read_chat_request(
    params: ChatCompletionParams,
    content_parts: bool,
    enforce_schema: bool,
    session_header: str | None = None,
) -> ChatRequest:
    """Apply the reference's defaults, aliases and clamps.

    Args:
        params: the validated body.
        content_parts: read an array of content parts as its joined texts instead of as empty.
        enforce_schema: see `read_response_format`.
        session_header: the header X-Session-Id, the last of the places for a session id.

    Raises:
        InvalidRequest: a tool breaks a rule.
    """
    plan = read_response_format(params, enforce_schema)
    sampling = read_sampling(params)
    first = CompletionRequest(
        model=value_or_none(params.model),
        messages=tuple(_message(message, content_parts) for message in params.messages),
        sampling=sampling,
        max_tokens=_max_tokens(params),
        stop=_stop(value_or_none(params.stop)),
        top_logprobs=read_top_logprobs(params),
        tool_use=read_tool_use(params),
        response_format=plan.constraint,
        enable_thinking=value_or_none(params.enable_thinking),
        reasoning_budget=_reasoning_budget(params),
        session_id=first_session_id(
            params.session_id, params.prompt_cache_key, params.promptCacheKey, session_header
        ),
    )
    return ChatRequest(
        completions=tuple(
            replace(
                first,
                sampling=replace(sampling, seed=seed_of_choice(sampling.seed, index)),
                session_id=first.session_id if index == 0 else None,
            )
            for index in range(min(max(params.n, 1), MAX_CHOICES))
        ),
        is_capped=params.n > MAX_CHOICES,
        format=plan,
        stream=params.stream,
        include_usage=(
            not isinstance(params.stream_options, UnsetType) and params.stream_options.include_usage
        ),
        unread_content=any(_is_unread(message, content_parts) for message in params.messages),
    )


def _message(message: ChatMessage, content_parts: bool) -> dict[str, Any]:
    role = "system" if message.role == "developer" else message.role
    read: dict[str, Any] = {"role": role, "content": _content(message.content, content_parts)}
    if role == "assistant" and message.reasoning_content is not UNSET:
        read["reasoning_content"] = message.reasoning_content
    if role == "assistant" and message.tool_calls is not UNSET:
        read["tool_calls"] = message.tool_calls
    return read


def _content(content: Any, content_parts: bool) -> str:
    """A message's text; anything but a string is empty (reference, `messages`)."""
    if isinstance(content, str):
        return content
    if not content_parts or not isinstance(content, list):
        return ""
    texts = [part.get("text") for part in content if isinstance(part, dict)]
    return "".join(text for text in texts if isinstance(text, str))


def _is_unread(message: ChatMessage, content_parts: bool) -> bool:
    content = message.content
    if content is UNSET or content is None or isinstance(content, str):
        return False
    return not (content_parts and isinstance(content, list))


def _max_tokens(params: ChatCompletionParams) -> int:
    asked = value_or_none(params.max_tokens)
    if asked is None:
        asked = value_or_none(params.max_completion_tokens)
    if asked is None:
        return DEFAULT_MAX_TOKENS
    return NON_POSITIVE_MAX_TOKENS if asked <= 0 else min(asked, MAX_TOKENS_LIMIT)


def _reasoning_budget(params: ChatCompletionParams) -> int | None:
    """Most reasoning tokens; 0 for none at all to keep to, None for the model's own."""
    asked = value_or_none(params.reasoning_budget)
    if asked is None:
        asked = value_or_none(params.max_reasoning_tokens)
    return None if asked is None else min(max(asked, 0), MAX_TOKENS_LIMIT)


def _stop(value: Sequence[str] | None) -> tuple[str, ...]:
    strings = [value] if isinstance(value, str) else value or ()
    # An empty stop string would end every answer before it begins.
    return tuple(dict.fromkeys(string for string in strings if string))
