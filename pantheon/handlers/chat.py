"""`POST /v1/chat/completions` over an engine."""

from __future__ import annotations

from dataclasses import dataclass

from pantheon.engine import ContextOverBudget, Engine
from pantheon.generated.models import Error, ErrorDetail
from pantheon.generated.operations import (
    ClientConnection,
    CreateChatCompletion200EventStream,
    CreateChatCompletion200Json,
    CreateChatCompletion500Json,
    CreateChatCompletionRequest,
    CreateChatCompletionResponse,
)
from pantheon.handlers.chat_answer import ChatIdentity, CollectedChoice, complete_answer
from pantheon.handlers.chat_choices import Choice, Choices
from pantheon.handlers.chat_request import ChatRequest, read_chat_request
from pantheon.handlers.chat_stream import (
    POLL_SECONDS,
    ChatStream,
    ClientGone,
    over_budget_stream,
)
from pantheon.handlers.unread_content import UnreadContentWarnings


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """What the settings say about chat completions; all additions to the reference.

    Attributes:
        content_parts: read message contents that are arrays of text parts, which the reference
            reads as empty.
        enforce_schema: constrain an answer to the schema of `json_schema`.
        keepalive_s: seconds of silence in a stream after which a comment is sent; 0 sends none.
    """

    content_parts: bool = False
    enforce_schema: bool = False
    keepalive_s: float = 0.0


class ChatCompletions:
    """Answers chat completions. Safe to use from any thread."""

    def __init__(self, engine: Engine, options: ChatOptions) -> None:
        self._engine = engine
        self._options = options
        self._unread_content = UnreadContentWarnings()

    def create(self, request: CreateChatCompletionRequest) -> CreateChatCompletionResponse:
        """Answer one request, as JSON or as a stream.

        Raises:
            EngineError: the engine refused the request, or its generation failed.
        """
        options, client = self._options, request.client
        chat = read_chat_request(
            request.body, options.content_parts, options.enforce_schema, request.x_session_id
        )
        if chat.unread_content:
            self._unread_content.warn(client.name)
        try:
            choices = Choices(self._engine, chat)
        except ContextOverBudget as error:
            if not chat.stream:
                raise
            return CreateChatCompletion200EventStream(over_budget_stream(error))
        is_handed_over = False
        try:
            first = _next_choice(choices, client)
            if first is not None and chat.stream:
                stream = ChatStream(choices, first, chat, client, options.keepalive_s)
                is_handed_over = True
                return CreateChatCompletion200EventStream(stream)
            return _answer(choices, first, chat, client)
        except ClientGone:
            return _answer_to_nobody()
        finally:
            if not is_handed_over:
                choices.close()


def _next_choice(choices: Choices, client: ClientConnection) -> Choice | None:
    """Wait for the next choice that gets a row; None when there is none left.

    Raises:
        ClientGone: before there was one.
        EngineError: the first choice was refused.
    """
    while choices.has_waiting:
        choice = choices.poll(POLL_SECONDS)
        if choice is not None:
            return choice
        if client.is_gone():
            raise ClientGone
    return None


def _answer(
    choices: Choices, first: Choice | None, chat: ChatRequest, client: ClientConnection
) -> CreateChatCompletionResponse:
    identity = ChatIdentity.new(choices.model_id)
    collected: list[CollectedChoice] = []
    choice = first
    while choice is not None:
        collected.append(_collect(choice, client))
        choice = _next_choice(choices, client)
    if not choices.finished:
        raise choices.failures[0]
    return CreateChatCompletion200Json(complete_answer(identity, chat, collected, choices))


def _collect(choice: Choice, client: ClientConnection) -> CollectedChoice:
    collected = CollectedChoice(choice.index)
    while not choice.has_ended:
        if client.is_gone():
            raise ClientGone
        event = choice.next_event(POLL_SECONDS)
        if event is not None:
            collected.add(event)
    return collected


def _answer_to_nobody() -> CreateChatCompletion500Json:
    """What is written to a connection that the client has closed."""
    detail = ErrorDetail(message="the client closed the connection", type="server_error")
    return CreateChatCompletion500Json(Error(error=detail))
