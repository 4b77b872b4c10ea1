"""`POST /v1/chat/completions` over an engine."""

from __future__ import annotations

import logging
import threading
from typing import Final

from pantheon.engine import (
    Completion,
    ContextOverBudget,
    Engine,
    Failed,
    Finished,
    GenerationFailed,
    TextDelta,
)
from pantheon.generated.models import Error, ErrorDetail
from pantheon.generated.operations import (
    ClientConnection,
    CreateChatCompletion200EventStream,
    CreateChatCompletion200Json,
    CreateChatCompletion500Json,
    CreateChatCompletionRequest,
    CreateChatCompletionResponse,
)
from pantheon.handlers.chat_answer import ChatIdentity, complete_answer
from pantheon.handlers.chat_request import read_chat_request
from pantheon.handlers.chat_stream import POLL_SECONDS, ChatStream, over_budget_stream

_log: Final = logging.getLogger(__name__)


class ChatCompletions:
    """Answers chat completions. Safe to use from any thread."""

    def __init__(self, engine: Engine, content_parts: bool) -> None:
        self._engine = engine
        self._content_parts = content_parts
        self._has_warned = threading.Event()

    def create(self, request: CreateChatCompletionRequest) -> CreateChatCompletionResponse:
        """Answer one request, as JSON or as a stream.

        Raises:
            EngineError: the engine refused the request, or its generation failed.
        """
        chat = read_chat_request(request.body, self._content_parts)
        if chat.unread_content and not self._has_warned.is_set():
            self._has_warned.set()
            _log.warning(
                "a message content that is no string was read as empty; "
                "PANTHEON_CONTENT_PARTS=1 reads arrays of text parts (said once)"
            )
        try:
            completion = self._engine.submit(chat.completion)
        except ContextOverBudget as error:
            if not chat.stream:
                raise
            return CreateChatCompletion200EventStream(over_budget_stream(error))
        if not _wait_admitted(completion, request.client):
            completion.cancel()
            return _answer_to_nobody()
        identity = ChatIdentity.new(completion.model_id)
        if chat.stream:
            return CreateChatCompletion200EventStream(
                ChatStream(completion, identity, request.client, chat.include_usage)
            )
        return _answer(completion, identity, request.client)


def _wait_admitted(completion: Completion, client: ClientConnection) -> bool:
    """Wait for a decode row; False when the client has gone before there was one."""
    while not completion.wait_admitted(POLL_SECONDS):
        if client.is_gone():
            return False
    return True


def _answer(
    completion: Completion, identity: ChatIdentity, client: ClientConnection
) -> CreateChatCompletionResponse:
    texts: list[str] = []
    unfinished = True
    try:
        while not client.is_gone():
            match completion.next_event(POLL_SECONDS):
                case TextDelta(text):
                    texts.append(text)
                case Finished() as end:
                    unfinished = False
                    return CreateChatCompletion200Json(
                        complete_answer(identity, "".join(texts), end)
                    )
                case Failed(message):
                    unfinished = False
                    raise GenerationFailed(message)
        return _answer_to_nobody()
    finally:
        if unfinished:
            completion.cancel()


def _answer_to_nobody() -> CreateChatCompletion500Json:
    """What is written to a connection that the client has closed."""
    detail = ErrorDetail(message="the client closed the connection", type="server_error")
    return CreateChatCompletion500Json(Error(error=detail))
