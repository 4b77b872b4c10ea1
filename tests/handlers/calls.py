"""Calls of the chat handler over a scripted engine."""

from __future__ import annotations

from typing import Any

from pantheon.engine.testing import Script, ScriptedEngine
from pantheon.generated.models import ChatCompletionParams
from pantheon.generated.operations import (
    CreateChatCompletion200EventStream,
    CreateChatCompletionRequest,
)
from pantheon.generated.parsing import to_model
from pantheon.handlers.chat import ChatCompletions, ChatOptions


class Client:
    """A client that stays for a number of looks at it."""

    def __init__(self, looks: int = 10**9, name: str = "127.0.0.1 a test") -> None:
        self.name = name
        self._looks = looks

    def is_gone(self) -> bool:
        self._looks -= 1
        return self._looks < 0


def engine_that(script: Script, **options: Any) -> ScriptedEngine:
    return ScriptedEngine(script=lambda _: script, **options)


def request(client: Client | None = None, **fields: Any) -> CreateChatCompletionRequest:
    body = {"messages": [{"role": "user", "content": "one two"}], **fields}
    return CreateChatCompletionRequest(
        client=client or Client(), body=to_model(body, ChatCompletionParams), x_session_id=None
    )


def create(engine: ScriptedEngine, options: ChatOptions | None = None, **fields: Any) -> Any:
    return ChatCompletions(engine, options or ChatOptions()).create(request(**fields))


def stream(engine: ScriptedEngine, **fields: Any) -> Any:
    response = create(engine, stream=True, **fields)
    assert isinstance(response, CreateChatCompletion200EventStream)
    return response.events
