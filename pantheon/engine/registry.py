"""The models of this process by name; the real `Engine`."""

from __future__ import annotations

from collections.abc import Sequence

import jax

from pantheon.engine.completion import EventStream
from pantheon.engine.config import EngineConfig
from pantheon.engine.errors import (
    EngineError,
    LoadFailed,
    LoadFailure,
    ModelNotFound,
    NoModelsLoaded,
)
from pantheon.engine.instance import ModelInstance
from pantheon.engine.loading import load_instance, served_name
from pantheon.engine.requests import CompletionRequest
from pantheon.engine.status import DieStatus, ModelStatus, PlatformStatus


class Registry:
    """Every loaded model; implements `pantheon.engine.face.Engine`."""

    def __init__(self, config: EngineConfig) -> None:
        """Start with no model; `load_all` loads the configured ones."""
        self._config = config
        self._instances: list[ModelInstance] = []

    def load_all(self) -> None:
        """Load the configured models in order.

        Raises:
            LoadFailed: one cannot be loaded; those before it stay.
        """
        for options in self._config.models:
            name = served_name(options)
            if any(instance.id == name for instance in self._instances):
                raise LoadFailed(LoadFailure.CONFLICT, f"a model named {name} is already loaded")
            self._instances.append(load_instance(options, self._config))

    def platform(self) -> PlatformStatus:
        """See `Engine.platform`."""
        return PlatformStatus(
            backend=self._config.backend,
            build=self._config.build,
            accelerator=jax.default_backend() != "cpu",
            dies_visible=0,
        )

    def models(self) -> Sequence[ModelStatus]:
        """See `Engine.models`."""
        return tuple(instance.status() for instance in self._instances)

    def dies(self) -> Sequence[DieStatus]:
        """See `Engine.dies`: no die manager holds any in a CPU build."""
        return ()

    def submit(self, request: CompletionRequest) -> EventStream:
        """See `Engine.submit`."""
        return self._route(request.model).submit(request)

    def close(self) -> None:
        """See `Engine.close`."""
        for instance in self._instances:
            instance.close()

    def _route(self, name: str | None) -> ModelInstance:
        """One model takes every name; several must be named exactly (reference, `model`)."""
        if not self._instances:
            raise NoModelsLoaded("no model is loaded")
        if len(self._instances) == 1:
            return self._instances[0]
        for instance in self._instances:
            if instance.id == name:
                return instance
        raise ModelNotFound(
            "model must name one of the loaded models (see /v1/models), "
            f"got {'none' if name is None else repr(name[:100])}"
        )


def build_engine(config: EngineConfig) -> Registry:
    """Set JAX up and load the configured models.

    Raises:
        LoadFailed: a model cannot be loaded.
        EngineError: the compile cache cannot be used.
    """
    if config.compile_cache_dir is not None:
        try:
            config.compile_cache_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EngineError(
                "the compile cache must be a folder that can be written, got "
                f"{config.compile_cache_dir}: {error.strerror}"
            ) from error
        options = {
            "jax_compilation_cache_dir": str(config.compile_cache_dir),
            # Keep every program: a start with all of them cached compiles nothing.
            "jax_persistent_cache_min_compile_time_secs": 0,
            "jax_persistent_cache_min_entry_size_bytes": -1,
        }
        for name, value in options.items():
            jax.config.update(name, value)  # type: ignore[no-untyped-call]
    registry = Registry(config)
    registry.load_all()
    return registry
