"""Every operation of the API over one engine."""

from __future__ import annotations

from pantheon.engine import Engine
from pantheon.generated import operations as ops
from pantheon.handlers.chat import ChatCompletions, ChatOptions
from pantheon.handlers.status import die_list, health, instance_list, model_list


class EngineOperations(ops.Operations):
    """Implements the generated operations. Holds no state of its own beside the engine."""

    def __init__(self, engine: Engine, chat: ChatOptions | None = None) -> None:
        """Wrap an engine.

        Args:
            engine: what answers.
            chat: options of chat completions; None for those of the reference.
        """
        self._engine = engine
        self._chat = ChatCompletions(engine, chat or ChatOptions())

    def get_health(self, request: ops.GetHealthRequest) -> ops.GetHealthResponse:
        return ops.GetHealth200Json(health(self._engine.platform()))

    def list_models(self, request: ops.ListModelsRequest) -> ops.ListModelsResponse:
        return ops.ListModels200Json(model_list(self._engine.platform(), self._engine.models()))

    def create_chat_completion(
        self, request: ops.CreateChatCompletionRequest
    ) -> ops.CreateChatCompletionResponse:
        return self._chat.create(request)

    def list_live_models(self, request: ops.ListLiveModelsRequest) -> ops.ListLiveModelsResponse:
        return ops.ListLiveModels200Json(instance_list(self._engine.models()))

    def list_dies(self, request: ops.ListDiesRequest) -> ops.ListDiesResponse:
        return ops.ListDies200Json(die_list(self._engine.dies()))
