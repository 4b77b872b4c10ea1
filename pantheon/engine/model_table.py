"""Which names are taken, and by which model in which part of its life."""

from __future__ import annotations

import threading

from pantheon.engine.errors import (
    LoadFailed,
    LoadFailure,
    ServerShuttingDown,
    UnloadFailed,
    UnloadFailure,
)
from pantheon.engine.served_model import ServedModel


class ModelTable:
    """The models of a registry: a name is loading, live, leaving, or free.

    Safe from any thread. Its lock is held for look-ups alone, never while anything is waited for.
    """

    def __init__(self, limit: int) -> None:
        """Start empty; at most `limit` names are taken at once."""
        self._limit = limit
        self._lock = threading.Lock()
        self._loading: set[str] = set()
        self._live: dict[str, ServedModel] = {}
        self._leaving: dict[str, ServedModel] = {}
        self._sealed = False

    @property
    def sealed(self) -> bool:
        """True once nothing new is taken in."""
        return self._sealed

    def live(self) -> tuple[ServedModel, ...]:
        """The models that are served, in the order in which they became so."""
        with self._lock:
            return tuple(self._live.values())

    def held(self) -> tuple[ServedModel, ...]:
        """Those and the ones that are leaving."""
        with self._lock:
            return (*self._live.values(), *self._leaving.values())

    def reserve(self, name: str) -> None:
        """Take a free name for a model that will be loaded.

        Raises:
            LoadFailed: the name is not free, or the table is full.
        """
        with self._lock:
            for state, names in (
                ("loaded", self._live),
                ("being loaded", self._loading),
                ("being unloaded", self._leaving),
            ):
                if name in names:
                    raise LoadFailed(
                        LoadFailure.CONFLICT, f"a model named {shown(name)} is already {state}"
                    )
            # One that leaves counts: its last answers hold threads, and it holds its memory.
            taken = len(self._live) + len(self._loading) + len(self._leaving)
            if taken >= self._limit:
                raise LoadFailed(
                    LoadFailure.NO_CAPACITY,
                    f"at most {self._limit} models may be loaded at once and {taken} are; unload "
                    "one first, or start with a larger PANTHEON_MAX_MODELS",
                )
            self._loading.add(name)

    def release(self, name: str) -> None:
        """Free a reserved name whose model did not come."""
        with self._lock:
            self._loading.remove(name)

    def publish(self, name: str, model: ServedModel) -> None:
        """Serve a model under its reserved name.

        Raises:
            ServerShuttingDown: the table is sealed; the name stays reserved.
        """
        with self._lock:
            if self._sealed:
                raise ServerShuttingDown("the server is shutting down and loads no model")
            self._loading.remove(name)
            self._live[name] = model

    def withdraw(self, name: str) -> ServedModel:
        """Stop serving a model; its name stays taken until `forget`.

        Raises:
            UnloadFailed: it is not live.
        """
        with self._lock:
            if name in self._leaving:
                raise UnloadFailed(
                    UnloadFailure.CONFLICT, f"the model {shown(name)} is already being unloaded"
                )
            model = self._live.pop(name, None)
            if model is None:
                raise UnloadFailed(
                    UnloadFailure.NOT_LOADED,
                    f"no model named {shown(name)} is loaded (see /v1/models)",
                )
            self._leaving[name] = model
            return model

    def forget(self, name: str) -> None:
        """Free the name of a model that has left."""
        with self._lock:
            del self._leaving[name]

    def seal(self) -> None:
        """Take in nothing new. Idempotent."""
        with self._lock:
            self._sealed = True

    def clear(self) -> None:
        """Serve nothing any more. Idempotent."""
        with self._lock:
            self._live.clear()


def shown(name: str) -> str:
    """A client's name for a model, as messages show it."""
    return repr(name[:100])
