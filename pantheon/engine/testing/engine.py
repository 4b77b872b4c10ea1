"""Models and requests of the scripted engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from pantheon.engine.errors import (
    ContextOverBudget,
    ModelNotFound,
    NoModelsLoaded,
    ServerShuttingDown,
)
from pantheon.engine.requests import CompletionRequest
from pantheon.engine.status import DieStatus, ModelStatus, PlatformStatus
from pantheon.engine.testing.completion import ScriptedCompletion
from pantheon.engine.testing.rows import Rows
from pantheon.engine.testing.script import Script, echo, tokens_of


def scripted_model(
    name: str = "scripted", *, rows: int = 2, context_window: int = 4096
) -> ModelStatus:
    """The row of a model that a ScriptedEngine serves."""
    return ModelStatus(
        id=name,
        path=f"/models/{name}.gguf",
        dies=(),
        vram_bytes=0,
        max_sessions=rows,
        max_concurrent=rows,
        max_concurrent_configured=rows,
        context_window=context_window,
        context_window_configured=context_window,
        tool_choice_required_with_thinking=False,
        attention=None,
    )


class ScriptedEngine:
    """Implements `pantheon.engine.face.Engine` over scripts.

    Attributes:
        accepted: every request that was accepted, in order.
        cancelled: how many generations were cancelled before their end.
    """

    def __init__(
        self,
        models: Sequence[ModelStatus] | None = None,
        script: Callable[[CompletionRequest], Script] = echo,
        *,
        queue_depth: int = 32,
        queue_wait_s: float = 30.0,
        dies: Sequence[DieStatus] = (),
        platform: PlatformStatus | None = None,
    ) -> None:
        """Serve `models` (one named `scripted` by default), each with its own rows and queue."""
        self._models = (scripted_model(),) if models is None else tuple(models)
        self._script = script
        self._dies = tuple(dies)
        self._platform = platform or PlatformStatus("cpu", "unknown", False, len(self._dies))
        self._rows = {
            model.id: Rows(model.max_concurrent, queue_depth, queue_wait_s)
            for model in self._models
        }
        self._lock = threading.Lock()
        self._closed = False
        self.accepted: list[CompletionRequest] = []
        self.cancelled = 0

    @property
    def rows_in_use(self) -> int:
        """Rows that generations hold right now, over all models."""
        return sum(rows.in_use for rows in self._rows.values())

    def platform(self) -> PlatformStatus:
        """See `Engine.platform`."""
        return self._platform

    def models(self) -> Sequence[ModelStatus]:
        """See `Engine.models`."""
        return self._models

    def dies(self) -> Sequence[DieStatus]:
        """See `Engine.dies`."""
        return self._dies

    def submit(self, request: CompletionRequest) -> ScriptedCompletion:
        """See `Engine.submit`."""
        if self._closed:
            raise ServerShuttingDown("the server is shutting down")
        model = self._route(request.model)
        script = self._script(request)
        if script.refusal is not None:
            raise script.refusal
        prompt_tokens = sum(len(tokens_of(str(m["content"]))) + 1 for m in request.messages)
        if prompt_tokens > model.context_window:
            raise ContextOverBudget(prompt_tokens, model.context_window)
        rows = self._rows[model.id]
        completion = ScriptedCompletion(
            model, request, script, prompt_tokens, rows, self._count_cancel
        )
        rows.enter(id(completion))
        with self._lock:
            self.accepted.append(request)
        return completion

    def close(self) -> None:
        """See `Engine.close`."""
        self._closed = True
        for rows in self._rows.values():
            rows.close()

    def _count_cancel(self) -> None:
        with self._lock:
            self.cancelled += 1

    def _route(self, name: str | None) -> ModelStatus:
        if not self._models:
            raise NoModelsLoaded("no model is loaded")
        if len(self._models) == 1:
            return self._models[0]
        for model in self._models:
            if model.id == name:
                return model
        raise ModelNotFound(f"expected one of the loaded models, got {name!r:.100}")
