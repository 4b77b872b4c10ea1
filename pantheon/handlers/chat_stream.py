"""A completion as the chunks of a stream (reference, streaming response)."""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Iterator
from typing import Final, TypeAlias

from msgspec import UNSET

from pantheon.engine import (
    ContextOverBudget,
    Failed,
    Finished,
    ReasoningDelta,
    TextDelta,
    ToolCallArguments,
    ToolCallClosed,
    ToolCallOpened,
)
from pantheon.generated.models import (
    ChatCompletionChunk,
    ChatCompletionChunkChoice,
    ChatCompletionDelta,
    ChatCompletionUsageChunk,
    ContextOverBudgetDetail,
    ContextOverBudgetEvent,
    FinishReason,
)
from pantheon.generated.operations import ClientConnection, SseComment, SseSentinel
from pantheon.handlers.chat_answer import ChatIdentity, logprobs_of, request_usage
from pantheon.handlers.chat_choices import Choice, Choices
from pantheon.handlers.chat_request import ChatRequest
from pantheon.handlers.tool_calls import (
    CollectedCalls,
    call_delta,
    call_error,
    reported_reason,
)

StreamEvent: TypeAlias = (
    ChatCompletionChunk
    | ChatCompletionUsageChunk
    | ContextOverBudgetEvent
    | SseSentinel
    | SseComment
)

POLL_SECONDS: Final = 0.1
"""Longest wait for an event before the client's connection is looked at again."""

KEEPALIVE: Final = SseComment("keep-alive")

_log: Final = logging.getLogger(__name__)


class ClientGone(Exception):
    """The client has closed its connection; nobody reads on."""


class ChatStream:
    """The events of one streamed completion, whose generations end with it.

    A class and not a generator: `close` must cancel the generations also when no event was ever
    asked for, and then no code of a generator has run.
    """

    def __init__(
        self,
        choices: Choices,
        first: Choice,
        chat: ChatRequest,
        client: ClientConnection,
        keepalive_s: float,
    ) -> None:
        """Stream choices of which `first` has its row.

        Args:
            choices: the generations; the stream owns them from now on.
            first: the first of them.
            chat: what was asked for.
            client: who reads.
            keepalive_s: seconds of silence after which a comment is sent; 0 sends none.
        """
        self._choices = choices
        self._chat = chat
        self._client = client
        self._keepalive_s = keepalive_s
        self._poll_s = min(POLL_SECONDS, keepalive_s or POLL_SECONDS)
        self._identity = ChatIdentity.new(choices.model_id)
        self._sent_at = time.monotonic()
        self._events = self._generate(first)

    def __iter__(self) -> Iterator[StreamEvent]:
        return self

    def __next__(self) -> StreamEvent:
        try:
            event = next(self._events)
        except ClientGone:
            # The end of the stream makes the server call `close`, which cancels.
            raise StopIteration from None
        self._sent_at = time.monotonic()
        return event

    def close(self) -> None:
        """Cancel the generations that have not ended. Idempotent."""
        self._events.close()
        self._choices.close()

    def _generate(self, first: Choice) -> Generator[StreamEvent, None, None]:
        choice: Choice | None = first
        while choice is not None:
            calls = CollectedCalls()
            yield self._chunk(choice, ChatCompletionDelta(role="assistant"))
            yield from self._deltas(choice, calls)
            # The last closing chunk says how many choices came, so it must be known to be one.
            following = yield from self._following()
            yield self._closing_chunk(choice, calls, is_last=following is None)
            choice = following
        if self._chat.include_usage and self._choices.finished:
            yield ChatCompletionUsageChunk(
                id=self._identity.id,
                created=self._identity.created,
                model=self._identity.model,
                choices=[],
                usage=request_usage(self._choices.finished),
            )
        yield SseSentinel.DONE

    def _deltas(self, choice: Choice, calls: CollectedCalls) -> Generator[StreamEvent, None, None]:
        while True:
            self._check_client()
            try:
                event = choice.next_event(self._poll_s)
            except Exception:
                # The status is sent already, so a defect ends the choice like a failure.
                _log.exception("error in a streamed completion")
                return
            match event:
                case TextDelta(text):
                    yield self._chunk(choice, ChatCompletionDelta(content=text), event)
                case ReasoningDelta(text):
                    yield self._chunk(choice, ChatCompletionDelta(reasoning_content=text))
                case ToolCallOpened() | ToolCallArguments() | ToolCallClosed():
                    calls.add(event)
                    delta = call_delta(event)
                    if delta is not None:
                        yield self._chunk(choice, delta)
                case Finished() | Failed():
                    return
                case None:
                    yield from self._keepalive()

    def _following(self) -> Generator[StreamEvent, None, Choice | None]:
        """The next choice once it has its row; None when there is no further one."""
        while self._choices.has_waiting:
            self._check_client()
            choice = self._choices.poll(self._poll_s)
            if choice is not None:
                return choice
            yield from self._keepalive()
        return None

    def _check_client(self) -> None:
        if self._client.is_gone():
            raise ClientGone

    def _keepalive(self) -> Generator[StreamEvent, None, None]:
        if self._keepalive_s and time.monotonic() - self._sent_at >= self._keepalive_s:
            yield KEEPALIVE

    def _closing_chunk(
        self, choice: Choice, calls: CollectedCalls, is_last: bool
    ) -> ChatCompletionChunk:
        end = choice.finished
        reason: FinishReason = "stop"
        if end is not None:
            reason = reported_reason(end, calls, streamed=True)
        closed = False if end is None else end.format_closed
        relaxed = end is not None and end.format_relaxed
        n_status = self._choices.count_status if is_last else None
        return ChatCompletionChunk(
            id=self._identity.id,
            created=self._identity.created,
            model=self._identity.model,
            choices=[
                ChatCompletionChunkChoice(
                    index=choice.index,
                    delta=ChatCompletionDelta(),
                    finish_reason=reason,
                    tool_call_error=UNSET if end is None else call_error(end),
                )
            ],
            response_format_status=self._chat.format.status_after(closed, relaxed) or UNSET,
            n_status=n_status or UNSET,
        )

    def _chunk(
        self, choice: Choice, delta: ChatCompletionDelta, text: TextDelta | None = None
    ) -> ChatCompletionChunk:
        tokens = text.logprobs if text is not None else ()
        return ChatCompletionChunk(
            id=self._identity.id,
            created=self._identity.created,
            model=self._identity.model,
            choices=[
                ChatCompletionChunkChoice(
                    index=choice.index,
                    delta=delta,
                    finish_reason=None,
                    logprobs=logprobs_of(tokens) if tokens else UNSET,
                )
            ],
        )


def over_budget_stream(error: ContextOverBudget) -> Generator[StreamEvent, None, None]:
    """The stream of a prompt that exceeds the window: its terminal event, and no `[DONE]`."""
    detail = ContextOverBudgetDetail(message=str(error), kv_used=error.kv_used, kv_cap=error.kv_cap)
    yield ContextOverBudgetEvent(error=detail)
