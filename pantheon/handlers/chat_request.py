"""From the body of a chat completion to what the engine is asked (reference, request body)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from msgspec import UNSET, UnsetType

from pantheon.engine import CompletionRequest, Sampling
from pantheon.engine.requests import (
    DEFAULT_MAX_TOKENS,
    MAX_TOKENS_LIMIT,
    NON_POSITIVE_MAX_TOKENS,
)
from pantheon.generated.models import ChatCompletionParams, ChatMessage

T = TypeVar("T")

MIN_TEMPERATURE: Final = 1e-6
"""Below it, dividing logits by the temperature leaves single precision; greedy is the limit."""

MAX_TEMPERATURE: Final = 1e3
"""Above it every token is equally likely."""

_MAX_TOP_K: Final = 2**31 - 1
_SEEDS: Final = 2**63


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a body asks for.

    Attributes:
        completion: the part that the engine answers.
        stream: answer with server-sent events.
        include_usage: end the stream with a usage chunk.
        unread_content: some message has a content that is no string and was read as empty.
    """

    completion: CompletionRequest
    stream: bool
    include_usage: bool
    unread_content: bool


def read_chat_request(params: ChatCompletionParams, content_parts: bool) -> ChatRequest:
    """Apply the reference's defaults, aliases and clamps.

    Args:
        params: the validated body.
        content_parts: read an array of content parts as its joined texts instead of as empty.
    """
    messages = tuple(_message(message, content_parts) for message in params.messages)
    return ChatRequest(
        completion=CompletionRequest(
            model=_or_none(params.model),
            messages=messages,
            sampling=Sampling(
                temperature=_temperature(params.temperature),
                top_p=min(max(params.top_p, 0.0), 1.0),
                top_k=min(max(params.top_k, 0), _MAX_TOP_K),
                seed=_seed(_or_none(params.seed)),
            ),
            max_tokens=_max_tokens(params),
            stop=_stop(_or_none(params.stop)),
        ),
        stream=params.stream,
        include_usage=(
            not isinstance(params.stream_options, UnsetType) and params.stream_options.include_usage
        ),
        unread_content=any(_is_unread(message, content_parts) for message in params.messages),
    )


def _or_none(value: T | UnsetType) -> T | None:
    return None if isinstance(value, UnsetType) else value


def _message(message: ChatMessage, content_parts: bool) -> dict[str, Any]:
    role = "system" if message.role == "developer" else message.role
    read: dict[str, Any] = {"role": role, "content": _content(message.content, content_parts)}
    if role == "assistant" and message.reasoning_content is not UNSET:
        read["reasoning_content"] = message.reasoning_content
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


def _temperature(value: float) -> float:
    return 0.0 if value < MIN_TEMPERATURE else min(value, MAX_TEMPERATURE)


def _seed(value: int | float | None) -> int | None:
    """A seed in [0, 2**63): the number without its fraction, modulo the number of seeds."""
    return None if value is None else int(value) % _SEEDS


def _max_tokens(params: ChatCompletionParams) -> int:
    asked = _or_none(params.max_tokens)
    if asked is None:
        asked = _or_none(params.max_completion_tokens)
    if asked is None:
        return DEFAULT_MAX_TOKENS
    return NON_POSITIVE_MAX_TOKENS if asked <= 0 else min(asked, MAX_TOKENS_LIMIT)


def _stop(value: Sequence[str] | None) -> tuple[str, ...]:
    strings = [value] if isinstance(value, str) else value or ()
    # An empty stop string would end every answer before it begins.
    return tuple(dict.fromkeys(string for string in strings if string))
