"""Every operation of the API over one engine."""

from __future__ import annotations

from pantheon.engine import Engine
from pantheon.generated import operations as ops
from pantheon.handlers.chat import ChatCompletions, ChatOptions
from pantheon.handlers.model_lifecycle import load_model, unload_model
from pantheon.handlers.session_cache import (
    largest_restore_body,
    release_session,
    restore_session,
)
from pantheon.handlers.session_estimate import estimate_session
from pantheon.handlers.session_export import export_session
from pantheon.handlers.session_watch import watch_session
from pantheon.handlers.status import die_list, health, instance_list, model_list


class EngineOperations(ops.Operations):
    """Implements the generated operations. Holds no state of its own beside the engine."""

    def __init__(self, engine: Engine, chat: ChatOptions | None = None) -> None:
        """Wrap an engine.

        Args:
            engine: what answers.
            chat: options of chat completions; None for those of the reference. Watches keep to
                its keep-alive.
        """
        options = chat or ChatOptions()
        self._engine = engine
        self._chat = ChatCompletions(engine, options)
        self._keepalive_s = options.keepalive_s

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

    def load_model(self, request: ops.LoadModelRequest) -> ops.LoadModelResponse:
        return load_model(self._engine, request)

    def unload_model(self, request: ops.UnloadModelRequest) -> ops.UnloadModelResponse:
        return unload_model(self._engine, request)

    def export_session(self, request: ops.ExportSessionRequest) -> ops.ExportSessionResponse:
        return export_session(self._engine, request)

    def restore_session(self, request: ops.RestoreSessionRequest) -> ops.RestoreSessionResponse:
        return restore_session(self._engine, request)

    def restore_session_body_limit(self) -> int:
        return largest_restore_body(self._engine)

    def release_session(self, request: ops.ReleaseSessionRequest) -> ops.ReleaseSessionResponse:
        return release_session(self._engine, request)

    def estimate_session(self, request: ops.EstimateSessionRequest) -> ops.EstimateSessionResponse:
        return estimate_session(self._engine, request)

    def watch_session(self, request: ops.WatchSessionRequest) -> ops.WatchSessionResponse:
        return watch_session(self._engine, request, self._keepalive_s)
