"""The models of this process by name; the real `Engine`."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial

import jax

from pantheon.engine.config import EngineConfig, ModelOptions
from pantheon.engine.dies import DieManager
from pantheon.engine.errors import (
    EngineError,
    LoadFailed,
    LoadFailure,
    ModelNotFound,
    NoModelsLoaded,
    ServerShuttingDown,
    UnloadFailed,
    UnloadFailure,
)
from pantheon.engine.face import Completion, Watch
from pantheon.engine.hosts import HostGroup
from pantheon.engine.loading import load_instance
from pantheon.engine.model_path import below_root, served_name
from pantheon.engine.model_table import ModelTable, Reservation, shown
from pantheon.engine.programs import ProgramStore
from pantheon.engine.reclaim import forget_frames, reclaim_memory
from pantheon.engine.replicas import Replicas, serving
from pantheon.engine.requests import CompletionRequest
from pantheon.engine.served_model import Loader, ServedModel
from pantheon.engine.shared import Shared
from pantheon.engine.snapshot import SessionSnapshot
from pantheon.engine.status import DieStatus, ModelStatus, PlatformStatus, PrefillRate
from pantheon.engine.uploads import Uploads

_log = logging.getLogger(__name__)

_IDLE_POLL_S = 0.02
"""Seconds between looks at whether an unloading model still generates."""


class Registry:
    """Every model; implements `pantheon.engine.face.Engine`.

    Only what is live is listed and routed to, not what is loading or leaving. No lock that a
    request takes is held while a file is read, a program compiled or a generation awaited, so
    every other route answers meanwhile.
    """

    def __init__(
        self,
        config: EngineConfig,
        loader: Loader | None = None,
        programs: ProgramStore | None = None,
        dies: DieManager | None = None,
        hosts: HostGroup | None = None,
    ) -> None:
        """Start with no model; `load_all` loads the configured ones.

        Args:
            loader: makes models of files; the real one when None.
            programs: what the real one need not compile; None keeps none.
            dies: the dies that models may be put on; None for the accelerators of this process,
                of which a CPU build has none.
            hosts: the processes that follow this one, which `close` ends; None where it is alone.
        """
        self._config = config
        self._programs = programs
        shared = Shared.of(config, programs, dies, hosts)
        self._hosts = hosts
        self._dies = shared.dies
        self._loader = loader or partial(load_instance, shared=shared)
        self._uploads = Uploads()
        self._replicas = Replicas()
        self._table = ModelTable(config.max_models)
        self._closed = threading.Event()

    def load_all(self) -> None:
        """Load the configured models in order.

        Raises:
            LoadFailed: one cannot be loaded; those before it stay.
        """
        for options in self._config.models:
            self._load(options)

    def platform(self) -> PlatformStatus:
        """See `Engine.platform`."""
        return PlatformStatus(
            backend=self._config.backend,
            build=self._config.build,
            accelerator=jax.default_backend() != "cpu",
            dies_visible=len(self._dies),
        )

    def models(self) -> Sequence[ModelStatus]:
        """See `Engine.models`."""
        return tuple(instance.status() for instance in self._table.live())

    def dies(self) -> Sequence[DieStatus]:
        """See `Engine.dies`."""
        return self._dies.status()

    def submit(self, request: CompletionRequest) -> Completion:
        """See `Engine.submit`."""
        with self._replicas.chosen(self._route(request.model), request.session_id) as instance:
            return instance.submit(request)

    def load(self, options: ModelOptions) -> ModelStatus | None:
        """See `Engine.load`."""
        if self._config.model_root is not None:
            options = below_root(options, self._config.model_root)
        instance = self._load(options)
        return instance.status() if instance in self._table.live() else None

    def unload(self, name: str) -> None:
        """See `Engine.unload`."""
        instances = self._table.withdraw(name)
        _log.info("%s: unloading", name)
        try:
            self._retire(instances)
        # The name must become free whatever happens, and the caller must hear of it.
        except Exception as error:
            _log.exception("%s could not be unloaded cleanly", name)
            raise UnloadFailed(
                UnloadFailure.OTHER, f"{name} could not be unloaded cleanly; see the server's log"
            ) from error
        finally:
            self._table.forget(name)
            del instances
            # JAX's caches are left alone while a load traces: the next time will do.
            with self._uploads.turn_if_free() as free:
                reclaim_memory(programs=free)
        _log.info("%s: unloaded", name)

    def export_session(self, model: str | None, session_id: str) -> SessionSnapshot:
        """See `Engine.export_session`."""
        return self._replicas.find(self._admitting(model), session_id).export_session(session_id)

    def restore_session(
        self, model: str | None, session_id: str, blob: bytes, tokens: Sequence[int]
    ) -> int:
        """See `Engine.restore_session`."""
        with self._replicas.chosen(self._admitting(model), session_id) as instance:
            return instance.restore_session(session_id, blob, tokens)

    def largest_blob_bytes(self) -> int:
        """See `Engine.largest_blob_bytes`."""
        return max((instance.largest_blob_bytes for instance in self._table.live()), default=0)

    def release_session(self, model: str | None, session_id: str) -> None:
        """See `Engine.release_session`."""
        self._replicas.find(self._named(model), session_id).release_session(session_id)

    def watch_session(self, model: str | None, session_id: str) -> Watch:
        """See `Engine.watch_session`."""
        with self._replicas.chosen(self._admitting(model), session_id) as instance:
            return instance.watch_session(session_id)

    def prefill_rate(self, model: str | None) -> PrefillRate:
        """See `Engine.prefill_rate`."""
        try:
            instance = serving(self._named(model))[0]
        except ModelNotFound:
            return PrefillRate("")
        return PrefillRate(instance.id, instance.prefill_tokens_per_s)

    def drain(self) -> None:
        """See `Engine.drain`. A load ends with its step."""
        self._table.seal()
        self._uploads.abort()
        if self._hosts is not None:
            self._hosts.drain()
        for instance in self._table.held():
            instance.drain(_shutting_down())

    @property
    def idle(self) -> bool:
        """See `Engine.idle`."""
        return all(instance.idle for instance in self._table.held())

    def close(self) -> None:
        """See `Engine.close`."""
        self._closed.set()
        self.drain()
        held = self._table.held()
        self._table.clear()
        for instance in held:
            instance.close()
        if self._programs is not None:
            self._programs.close()
        if self._hosts is not None:
            self._hosts.close()

    def _load(self, options: ModelOptions) -> ServedModel:
        name = served_name(options)
        if options.dies:
            self._dies.check(options.dies)
        place = self._table.reserve(name, options)
        try:
            with self._uploads.turn():
                instance = self._upload(place, options)
            try:
                self._table.publish(place, instance)
            except (ServerShuttingDown, LoadFailed):
                instance.close()
                raise
        except BaseException:
            self._table.release(place)
            raise
        return instance

    def _upload(self, place: Reservation, options: ModelOptions) -> ServedModel:
        """Run the loader; whatever it raises, nothing of its work stays alive."""
        name, check_weights = place.name, partial(self._table.check_weights, place)
        failure: EngineError
        try:
            instance = self._loader(options, self._config, self._uploads.check, check_weights)
        except EngineError as error:
            failure = error
            _log.warning("%s: not loaded: %s", name, error)
        # Whatever a hostile file makes the libraries raise ends this load and not the server.
        except Exception as error:
            _log.exception("%s: not loaded", name)
            failure = LoadFailed(
                LoadFailure.OTHER, f"{shown(name)} cannot be loaded; the server's log says why"
            )
            forget_frames(error)
        else:
            # What making it took beside what it holds: hundreds of megabytes.
            reclaim_memory(programs=False)
            return instance
        # The frames that an error came through hold the arrays that were made there.
        forget_frames(failure)
        reclaim_memory(programs=True)
        raise failure

    def _retire(self, instances: Sequence[ServedModel]) -> None:
        """Let every instance of a name end what it runs, all in the same time, and close it."""
        for instance in instances:
            instance.drain(ModelNotFound(f"{shown(instance.id)} was unloaded"))
        deadline = time.monotonic() + self._config.unload_drain_s
        while not all(one.idle for one in instances) and time.monotonic() < deadline:
            if self._closed.wait(_IDLE_POLL_S):
                break
        with ExitStack() as closing:
            # Each of them, whatever the others raise.
            for instance in instances:
                closing.callback(instance.close)

    def _route(self, name: str | None) -> Sequence[ServedModel]:
        """The instances of a name; one name takes every request, of several each its own
        (reference, `model`)."""
        if self._table.sealed:
            raise _shutting_down()
        served = self._table.live()
        if not served:
            raise NoModelsLoaded("no model is loaded")
        if len({instance.id for instance in served}) == 1:
            return served
        found = [instance for instance in served if instance.id == name]
        if not found:
            raise ModelNotFound(
                "model must name one of the loaded models (see /v1/models), "
                f"got {'none' if name is None else shown(name)}"
            )
        return found

    def _admitting(self, name: str | None) -> Sequence[ServedModel]:
        if self._table.sealed:
            raise _shutting_down()
        return self._named(name)

    def _named(self, name: str | None) -> Sequence[ServedModel]:
        """The instances of the default model or of exactly that name (reference, session
        routes)."""
        served = self._table.live()
        wanted = served[0].id if name is None and served else name
        found = [instance for instance in served if instance.id == wanted]
        if not found:
            raise ModelNotFound(
                f"no model named {shown(name)} is loaded (see /v1/models)"
                if name is not None
                else "no model is loaded"
            )
        return found


def _shutting_down() -> ServerShuttingDown:
    return ServerShuttingDown("the server is shutting down")


def build_engine(
    config: EngineConfig, programs: ProgramStore | None = None, hosts: HostGroup | None = None
) -> Registry:
    """Load the configured models.

    Args:
        programs: see `pantheon.engine.programs.open_programs`.
        hosts: see `Registry`.

    Raises:
        LoadFailed: a model cannot be loaded.
    """
    registry = Registry(config, programs=programs, hosts=hosts)
    registry.load_all()
    return registry
