"""A completion as one JSON body, and the parts that it shares with a stream (reference,
non-streaming response)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from msgspec import UNSET

from pantheon.engine import (
    Event,
    Finished,
    ReasoningDelta,
    TextDelta,
    TokenAlternative,
    ToolCallArguments,
    ToolCallClosed,
    ToolCallOpened,
)
from pantheon.engine import TokenLogprob as EngineTokenLogprob
from pantheon.generated.models import (
    AssistantMessage,
    ChatCompletion,
    ChatCompletionChoice,
    Logprobs,
    PromptTokensDetails,
    TokenLogprob,
    TopLogprob,
    Usage,
)
from pantheon.handlers.chat_choices import Choices
from pantheon.handlers.chat_request import ChatRequest
from pantheon.handlers.tool_calls import CollectedCalls, call_error, reported_reason


@dataclass(frozen=True, slots=True)
class ChatIdentity:
    """What names one completion: the same in its answer or in all of its chunks.

    Attributes:
        id: unique, `chatcmpl-` and hexadecimal digits.
        created: Unix seconds.
        model: the served name of the model that answers.
    """

    id: str
    created: int
    model: str

    @classmethod
    def new(cls, model: str) -> ChatIdentity:
        """A fresh identity of a completion that starts now."""
        return cls(id=f"chatcmpl-{secrets.token_hex(12)}", created=int(time.time()), model=model)


@dataclass(slots=True)
class CollectedChoice:
    """What the events of one choice add up to.

    Attributes:
        index: its number among those asked for.
        end: its last event, once it came.
    """

    index: int
    end: Finished | None = None
    _texts: list[str] = field(default_factory=list)
    _reasoning: list[str] = field(default_factory=list)
    _tokens: list[EngineTokenLogprob] = field(default_factory=list)
    _calls: CollectedCalls = field(default_factory=CollectedCalls)

    def add(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case TextDelta(text, logprobs):
                self._texts.append(text)
                self._tokens.extend(logprobs)
            case ReasoningDelta(text):
                self._reasoning.append(text)
            case ToolCallOpened() | ToolCallArguments() | ToolCallClosed():
                self._calls.add(event)
            case Finished():
                self.end = event

    def body(self, end: Finished, has_logprobs: bool) -> ChatCompletionChoice:
        """The choice that ended with `end`."""
        text, reasoning = "".join(self._texts), "".join(self._reasoning)
        calls = self._calls.complete
        return ChatCompletionChoice(
            index=self.index,
            message=AssistantMessage(
                content=None if calls and not text else text,
                reasoning_content=reasoning or UNSET,
                tool_calls=calls or UNSET,
            ),
            finish_reason=reported_reason(end, self._calls, streamed=False),
            logprobs=logprobs_of(self._tokens) if has_logprobs else UNSET,
            tool_call_error=call_error(end),
        )


def complete_answer(
    identity: ChatIdentity,
    chat: ChatRequest,
    collected: Iterable[CollectedChoice],
    choices: Choices,
) -> ChatCompletion:
    """The body of a completion that is not streamed, of every choice that came to an end.

    One choice whose answer is incomplete in its format makes the status of all `not_enforced`.
    """
    ended = [(choice, choice.end) for choice in collected if choice.end is not None]
    is_closed = all(end.format_closed is not False for _, end in ended)
    is_relaxed = any(end.format_relaxed for _, end in ended)
    return ChatCompletion(
        id=identity.id,
        created=identity.created,
        model=identity.model,
        choices=[choice.body(end, chat.has_logprobs) for choice, end in ended],
        usage=request_usage([end for _, end in ended]),
        response_format_status=chat.format.status_after(is_closed, is_relaxed) or UNSET,
        n_status=choices.count_status or UNSET,
    )


def request_usage(ends: Sequence[Finished]) -> Usage:
    """The reference's `usage` of a whole request.

    The prompt and the KV are those of the first choice; completion tokens are summed.

    Args:
        ends: of the choices that came to an end, in order; at least one.
    """
    first = ends[0].usage
    completion_tokens = sum(end.usage.completion_tokens for end in ends)
    return Usage(
        prompt_tokens=first.prompt_tokens,
        completion_tokens=completion_tokens,
        total_tokens=first.prompt_tokens + completion_tokens,
        prompt_tokens_details=PromptTokensDetails(cached_tokens=first.cached_tokens),
        kv_used=first.kv_used,
        kv_cap=first.kv_cap,
        session_conflict=True if first.session_conflict else UNSET,
    )


def logprobs_of(tokens: Iterable[EngineTokenLogprob]) -> Logprobs:
    """The `logprobs` of a choice or chunk."""
    return Logprobs(
        content=[
            TokenLogprob(
                token=token.text,
                logprob=token.logprob,
                bytes=list(token.data),
                top_logprobs=[_alternative(other) for other in token.alternatives],
            )
            for token in tokens
        ]
    )


def _alternative(token: TokenAlternative) -> TopLogprob:
    return TopLogprob(token=token.text, logprob=token.logprob, bytes=list(token.data))
