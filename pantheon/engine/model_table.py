"""Which names are taken, and by which instances in which part of their life."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path

from pantheon.engine.config import ModelOptions
from pantheon.engine.errors import (
    LoadFailed,
    LoadFailure,
    ServerShuttingDown,
    UnloadFailed,
    UnloadFailure,
)
from pantheon.engine.served_model import ServedModel


@dataclass(slots=True, eq=False)
class Reservation:
    """A place in the table, from the start of a load.

    Attributes:
        file: the real path of what is loaded.
        quantize: whether it is quantised.
        dies: ordinals that were named; none where the engine chooses.
        withdrawn: whether the name was unloaded meanwhile.
    """

    name: str
    file: str
    quantize: bool
    dies: frozenset[int]
    withdrawn: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class _Instance:
    """A served model in its place."""

    place: Reservation
    model: ServedModel

    @property
    def name(self) -> str:
        """The served name."""
        return self.place.name


class ModelTable:
    """The models of a registry: a name is loading, live, leaving, or free.

    A live name may have several instances, on dies of their own: replicas of one file and the same
    weights.

    Safe from any thread. Its lock is held for look-ups alone, never while anything is waited for.
    """

    def __init__(self, limit: int) -> None:
        """Start empty; at most `limit` instances are held at once."""
        self._limit = limit
        self._lock = threading.Lock()
        self._loading: list[Reservation] = []
        self._live: list[_Instance] = []
        self._leaving: list[_Instance] = []
        self._sealed = False

    @property
    def sealed(self) -> bool:
        """True once nothing new is taken in."""
        return self._sealed

    def live(self) -> tuple[ServedModel, ...]:
        """The instances that are served, in the order in which they became so."""
        with self._lock:
            return tuple(instance.model for instance in self._live)

    def held(self) -> tuple[ServedModel, ...]:
        """Those and the ones that are leaving."""
        with self._lock:
            return tuple(instance.model for instance in (*self._live, *self._leaving))

    def reserve(self, name: str, options: ModelOptions) -> Reservation:
        """Take a place for an instance that will be loaded: of a free name, or a replica.

        Args:
            dies: ordinals that were named; without any there is no replica.

        Raises:
            LoadFailed: the name is not free and this is no replica, or the table is full.
        """
        place = Reservation(
            name, _real_path(options.path), options.quantize, frozenset(options.dies or ())
        )
        with self._lock:
            self._check_free(place)
            # One that leaves counts: its last answers hold threads, and it holds its memory.
            taken = len(self._live) + len(self._loading) + len(self._leaving)
            if taken >= self._limit:
                raise LoadFailed(
                    LoadFailure.NO_CAPACITY,
                    f"at most {self._limit} models may be loaded at once and {taken} are; unload "
                    "one first, or start with a larger PANTHEON_MAX_MODELS",
                )
            self._loading.append(place)
            return place

    def release(self, place: Reservation) -> None:
        """Free a place whose model did not come."""
        with self._lock:
            self._loading.remove(place)

    def check_weights(self, place: Reservation, version: int) -> None:
        """Refuse a replica of other weights than those served under its name.

        Args:
            version: see `ServedModel.weights_version`.

        Raises:
            LoadFailed: they are others.
        """
        with self._lock:
            self._check_weights(place, version)

    def publish(self, place: Reservation, model: ServedModel) -> None:
        """Serve a model in its place.

        Raises:
            ServerShuttingDown: the table is sealed; the place stays reserved.
            LoadFailed: the name was unloaded meanwhile, or is served with other weights; likewise.
        """
        with self._lock:
            if self._sealed:
                raise ServerShuttingDown("the server is shutting down and loads no model")
            if place.withdrawn:
                raise LoadFailed(
                    LoadFailure.CONFLICT,
                    f"{shown(place.name)} was unloaded while this replica was loaded",
                )
            self._check_weights(place, model.weights_version)
            self._loading.remove(place)
            self._live.append(_Instance(place, model))

    def withdraw(self, name: str) -> tuple[ServedModel, ...]:
        """Stop serving a name; it stays taken until `forget`. Its replicas that load never come.

        Returns:
            Every instance of it, at least one.

        Raises:
            UnloadFailed: it is not live.
        """
        with self._lock:
            if any(instance.name == name for instance in self._leaving):
                raise UnloadFailed(
                    UnloadFailure.CONFLICT, f"the model {shown(name)} is already being unloaded"
                )
            found = [instance for instance in self._live if instance.name == name]
            if not found:
                raise UnloadFailed(
                    UnloadFailure.NOT_LOADED,
                    f"no model named {shown(name)} is loaded (see /v1/models)",
                )
            self._live = [instance for instance in self._live if instance.name != name]
            self._leaving += found
            for place in self._loading:
                place.withdrawn = place.withdrawn or place.name == name
            return tuple(instance.model for instance in found)

    def forget(self, name: str) -> None:
        """Free the name of a model that has left."""
        with self._lock:
            self._leaving = [instance for instance in self._leaving if instance.name != name]

    def seal(self) -> None:
        """Take in nothing new. Idempotent."""
        with self._lock:
            self._sealed = True

    def clear(self) -> None:
        """Serve nothing any more. Idempotent."""
        with self._lock:
            self._live.clear()

    def _check_free(self, place: Reservation) -> None:
        """Refuse what is neither of a free name nor a replica apart from every other instance."""

        def refuse(why: str) -> LoadFailed:
            return LoadFailed(LoadFailure.CONFLICT, f"a model named {shown(place.name)} is {why}")

        if any(instance.name == place.name for instance in self._leaving):
            raise refuse("already being unloaded")
        others = [
            (instance.place, frozenset(instance.model.dies), "loaded")
            for instance in self._live
            if instance.name == place.name
        ] + [
            (other, other.dies, "being loaded")
            for other in self._loading
            if other.name == place.name
        ]
        for other, dies, state in others:
            # Without dies named there is nothing that could be apart.
            if not place.dies or not dies or place.dies & dies:
                raise refuse(f"already {state}")
            if other.file != place.file:
                raise refuse(f"already {state} from another file; a replica is of the same one")
            if other.quantize != place.quantize:
                raise refuse(
                    f"already {state} with quantize {str(other.quantize).lower()}; a replica is "
                    "quantised alike"
                )

    def _check_weights(self, place: Reservation, version: int) -> None:
        for instance in self._live:
            if instance.name == place.name and instance.model.weights_version != version:
                raise LoadFailed(
                    LoadFailure.CONFLICT,
                    f"a model named {shown(place.name)} is already loaded with other weights than "
                    "the file holds now; a replica has the same",
                )


def _real_path(path: Path) -> str:
    """One spelling of each path, whether there is a file or not."""
    try:
        return os.path.realpath(path)
    except ValueError:
        # A NUL: no file has such a name, which the load will find.
        return str(path)


def shown(name: str) -> str:
    """A client's name for a model, as messages show it."""
    return repr(name[:100])
