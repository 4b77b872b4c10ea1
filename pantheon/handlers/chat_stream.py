"""A completion as the chunks of a stream (reference, streaming response)."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator
from typing import Final, TypeAlias

from pantheon.engine import (
    Completion,
    ContextOverBudget,
    Failed,
    Finished,
    FinishReason,
    TextDelta,
    Usage,
)
from pantheon.generated.models import (
    ChatCompletionChunk,
    ChatCompletionChunkChoice,
    ChatCompletionDelta,
    ChatCompletionUsageChunk,
    ContextOverBudgetDetail,
    ContextOverBudgetEvent,
)
from pantheon.generated.operations import ClientConnection, SseComment, SseSentinel
from pantheon.handlers.chat_answer import ChatIdentity, usage_of

StreamEvent: TypeAlias = (
    ChatCompletionChunk
    | ChatCompletionUsageChunk
    | ContextOverBudgetEvent
    | SseSentinel
    | SseComment
)

POLL_SECONDS: Final = 0.1
"""Longest wait for an event before the client's connection is looked at again."""

_log: Final = logging.getLogger(__name__)


class ChatStream:
    """The events of one streamed completion, whose generation ends with it.

    A class and not a generator: `close` must cancel the generation also when no event was ever
    asked for, and then no code of a generator has run.
    """

    def __init__(
        self,
        completion: Completion,
        identity: ChatIdentity,
        client: ClientConnection,
        include_usage: bool,
    ) -> None:
        self._completion = completion
        self._identity = identity
        self._client = client
        self._include_usage = include_usage
        self._unfinished = True
        self._chunks = self._generate()

    def __iter__(self) -> Iterator[StreamEvent]:
        return self

    def __next__(self) -> StreamEvent:
        return next(self._chunks)

    def close(self) -> None:
        """Cancel the generation if it has not ended. Idempotent."""
        self._chunks.close()
        if self._unfinished:
            self._unfinished = False
            self._completion.cancel()

    def _generate(self) -> Generator[StreamEvent, None, None]:
        yield self._chunk(ChatCompletionDelta(role="assistant"))
        # A client that has gone ends the stream; `close` then cancels the generation.
        while not self._client.is_gone():
            try:
                event = self._completion.next_event(POLL_SECONDS)
            except Exception:
                # The status is sent already, so a defect ends the choice like a failure.
                _log.exception("error in a streamed completion")
                yield from self._ending("stop")
                return
            match event:
                case TextDelta(text):
                    yield self._chunk(ChatCompletionDelta(content=text))
                case Finished(finish_reason, usage):
                    self._unfinished = False
                    yield from self._ending(finish_reason, usage)
                    return
                case Failed(message):
                    self._unfinished = False
                    _log.warning("a streamed generation failed: %s", message)
                    yield from self._ending("stop")
                    return

    def _ending(
        self, finish_reason: FinishReason, usage: Usage | None = None
    ) -> Generator[StreamEvent, None, None]:
        yield self._chunk(ChatCompletionDelta(), finish_reason)
        if usage is not None and self._include_usage:
            yield ChatCompletionUsageChunk(
                id=self._identity.id,
                created=self._identity.created,
                model=self._identity.model,
                choices=[],
                usage=usage_of(usage),
            )
        yield SseSentinel.DONE

    def _chunk(
        self, delta: ChatCompletionDelta, finish_reason: FinishReason | None = None
    ) -> ChatCompletionChunk:
        return ChatCompletionChunk(
            id=self._identity.id,
            created=self._identity.created,
            model=self._identity.model,
            choices=[ChatCompletionChunkChoice(index=0, delta=delta, finish_reason=finish_reason)],
        )


def over_budget_stream(error: ContextOverBudget) -> Generator[StreamEvent, None, None]:
    """The stream of a prompt that exceeds the window: its terminal event, and no `[DONE]`."""
    detail = ContextOverBudgetDetail(message=str(error), kv_used=error.kv_used, kv_cap=error.kv_cap)
    yield ContextOverBudgetEvent(error=detail)
