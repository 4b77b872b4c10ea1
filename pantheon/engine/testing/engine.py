"""Models and requests of the scripted engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from pantheon.engine.config import ModelOptions
from pantheon.engine.errors import (
    LoadFailed,
    LoadFailure,
    ModelNotFound,
    NoModelsLoaded,
    ServerShuttingDown,
    UnloadFailed,
    UnloadFailure,
)
from pantheon.engine.requests import CompletionRequest
from pantheon.engine.snapshot import SessionSnapshot
from pantheon.engine.status import DieStatus, ModelStatus, PlatformStatus, PrefillRate
from pantheon.engine.testing.completion import ScriptedCompletion
from pantheon.engine.testing.model import ScriptedModel, loaded_model, scripted_model
from pantheon.engine.testing.rows import Rows
from pantheon.engine.testing.script import Script, echo
from pantheon.engine.testing.sessions import Sessions
from pantheon.engine.testing.watches import ScriptedWatch, Watches


class ScriptedEngine:
    """Implements `pantheon.engine.face.Engine` over scripts.

    Attributes:
        accepted: every request that was accepted, in order.
        cancelled: how many generations were cancelled before their end.
        watches: the watches that are held.
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
        max_models: int = 4,
        max_watches: int = 64,
        watch_s: float | None = None,
        watch_grace_s: float = 45.0,
        unload_drain_s: float = 60.0,
        without_sessions: Collection[str] = (),
        without_snapshots: Collection[str] = (),
    ) -> None:
        """Serve `models` (one named `scripted` by default), each with its own rows and queue.

        Args:
            models: their rows.
            script: what a request plays.
            queue_depth: requests that may wait for a row of one model.
            queue_wait_s: seconds that one may wait.
            dies: what `dies` answers.
            platform: what `platform` answers.
            max_models: models at once.
            max_watches: watches at once.
            watch_s: seconds after which a watch ends by itself; None for never.
            watch_grace_s: see `EngineConfig`.
            unload_drain_s: see `EngineConfig`.
            without_sessions: names of models that have no session cache.
            without_snapshots: names of models that have no snapshot format.
        """
        self._script = script
        self._queue_depth = queue_depth
        self._queue_wait_s = queue_wait_s
        self._dies = tuple(dies)
        self._platform = platform or PlatformStatus("cpu", "unknown", False, len(self._dies))
        self._max_models = max_models
        self._watch_grace_s = watch_grace_s
        self._unload_drain_s = unload_drain_s
        self._without_sessions = frozenset(without_sessions)
        self._without_snapshots = frozenset(without_snapshots)
        self._lock = threading.Lock()
        self._draining = False
        self._unloading: set[str] = set()
        served = (scripted_model(),) if models is None else models
        self._models = {status.id: self._serve(status) for status in served}
        self.watches = Watches(max_watches, watch_s)
        self.accepted: list[CompletionRequest] = []
        self.cancelled = 0

    @property
    def rows_in_use(self) -> int:
        """Rows that generations hold right now, over all models."""
        return sum(model.rows.in_use for model in self._live())

    @property
    def idle(self) -> bool:
        """See `Engine.idle`."""
        return all(model.rows.idle for model in self._live())

    def platform(self) -> PlatformStatus:
        """See `Engine.platform`."""
        return self._platform

    def models(self) -> Sequence[ModelStatus]:
        """See `Engine.models`."""
        return tuple(model.status for model in self._live())

    def dies(self) -> Sequence[DieStatus]:
        """See `Engine.dies`."""
        return self._dies

    def submit(self, request: CompletionRequest) -> ScriptedCompletion:
        """See `Engine.submit`."""
        self._check_admits()
        model = self._route(request.model)
        script = self._script(request)
        if script.refusal is not None:
            raise script.refusal
        completion = model.submit(request, script, self._count_cancel)
        with self._lock:
            self.accepted.append(request)
        return completion

    def load(self, options: ModelOptions) -> ModelStatus | None:
        """See `Engine.load`: any file whose name ends in `.gguf` is a model."""
        self._check_admits()
        name = options.name or options.path.name.removesuffix(".gguf")
        if not _is_file(options.path):
            raise LoadFailed(LoadFailure.FILE_NOT_FOUND, "the model file does not exist")
        if options.path.suffix != ".gguf":
            raise LoadFailed(LoadFailure.OTHER, "the file is not a GGUF file")
        if options.dies is not None:
            raise LoadFailed(LoadFailure.NO_ACCELERATOR, "dies: this build has no accelerator")
        with self._lock:
            if name in self._models or name in self._unloading:
                raise LoadFailed(LoadFailure.CONFLICT, "a model of that name is already loaded")
            if len(self._models) >= self._max_models:
                raise LoadFailed(
                    LoadFailure.NO_CAPACITY, f"as many models as may be ({self._max_models}) are"
                )
            self._models[name] = self._serve(loaded_model(name, options))
            return self._models[name].status

    def unload(self, name: str) -> None:
        """See `Engine.unload`."""
        with self._lock:
            if name in self._unloading:
                raise UnloadFailed(UnloadFailure.CONFLICT, "the model is already being unloaded")
            model = self._models.pop(name, None)
            if model is None:
                raise UnloadFailed(UnloadFailure.NOT_LOADED, "no model of that name is loaded")
            self._unloading.add(name)
        model.rows.drain()
        model.rows.wait_idle(self._unload_drain_s)
        model.rows.close()
        self.watches.end(name)
        with self._lock:
            self._unloading.discard(name)

    def export_session(self, model: str | None, session_id: str) -> SessionSnapshot:
        """See `Engine.export_session`."""
        self._check_admits()
        return self._named(model).export(session_id)

    def restore_session(
        self, model: str | None, session_id: str, blob: bytes, tokens: Sequence[int]
    ) -> int:
        """See `Engine.restore_session`."""
        self._check_admits()
        return self._named(model).restore(session_id, blob, tokens)

    def largest_blob_bytes(self) -> int:
        """See `Engine.largest_blob_bytes`."""
        return max((model.largest_blob_bytes for model in self._live()), default=0)

    def release_session(self, model: str | None, session_id: str) -> None:
        """See `Engine.release_session`."""
        sessions = self._named(model).sessions
        if sessions is not None:
            sessions.release(session_id)

    def watch_session(self, model: str | None, session_id: str) -> ScriptedWatch:
        """See `Engine.watch_session`."""
        self._check_admits()
        served = self._named(model)
        sessions = served.session_cache()
        watch = self.watches.add(
            (served.status.id, session_id), lambda: sessions.let_go(session_id)
        )
        sessions.hold(session_id)
        return watch

    def prefill_rate(self, model: str | None) -> PrefillRate:
        """See `Engine.prefill_rate`: never measured."""
        try:
            return PrefillRate(self._named(model).status.id)
        except ModelNotFound:
            return PrefillRate("")

    def drain(self) -> None:
        """See `Engine.drain`."""
        self._draining = True
        for model in self._live():
            model.rows.drain()
        self.watches.end()

    def close(self) -> None:
        """See `Engine.close`."""
        self.drain()
        for model in self._live():
            model.rows.close()

    def _serve(self, status: ModelStatus) -> ScriptedModel:
        rows = Rows(status.max_concurrent, self._queue_depth, self._queue_wait_s)
        sessions = Sessions(status.max_sessions, self._watch_grace_s)
        keeps = status.id not in self._without_sessions
        exports = status.id not in self._without_snapshots
        return ScriptedModel(status, rows, sessions if keeps else None, exports)

    def _live(self) -> list[ScriptedModel]:
        with self._lock:
            return list(self._models.values())

    def _check_admits(self) -> None:
        if self._draining:
            raise ServerShuttingDown("the server is shutting down")

    def _count_cancel(self) -> None:
        with self._lock:
            self.cancelled += 1

    def _route(self, name: str | None) -> ScriptedModel:
        models = self._live()
        if not models:
            raise NoModelsLoaded("no model is loaded")
        if len(models) == 1:
            return models[0]
        for model in models:
            if model.status.id == name:
                return model
        raise ModelNotFound(f"expected one of the loaded models, got {name!r:.100}")

    def _named(self, name: str | None) -> ScriptedModel:
        """The model of a session route: None for the first, else exactly that of the name."""
        for model in self._live():
            if name is None or model.status.id == name:
                return model
        raise ModelNotFound(f"expected one of the loaded models, got {name!r:.100}")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # For example a name that is too long.
        return False
