"""Which model is on which die."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from pantheon.engine.dies.die import Die
from pantheon.engine.errors import InvalidRequest, LoadFailed, LoadFailure
from pantheon.engine.status import DieStatus


class Binding:
    """A model's hold of its dies, from the moment they are chosen until `release`."""

    def __init__(self, manager: DieManager, name: str, dies: tuple[Die, ...], need: int) -> None:
        """Made by `DieManager.bind`.

        Args:
            need: bytes that are kept free for it on each die until it says what it holds.
        """
        self._manager = manager
        self.name = name
        self.dies = dies
        self._need = need
        self._held: Mapping[int, int] | None = None
        self._next = 0

    @property
    def ordinals(self) -> tuple[int, ...]:
        """Ordinals of its dies, in the order in which they were named."""
        return tuple(die.ordinal for die in self.dies)

    def held(self, ordinal: int) -> int:
        """Bytes that it says to hold on a die of its own."""
        return 0 if self._held is None else self._held.get(ordinal, 0)

    def claimed(self, ordinal: int) -> int:
        """Bytes of a die of its own that nobody else may plan with."""
        return self._next + (self._need if self._held is None else self.held(ordinal))

    def claim(self, size: int) -> None:
        """Keep so many bytes more free on each of its dies, until it says again what it holds."""
        self._next = size

    def hold(self, held: Mapping[int, int]) -> None:
        """Say what is really held: bytes by ordinal, in place of what was estimated."""
        self._held, self._next = dict(held), 0

    def left_bytes(self) -> int:
        """Bytes that the fullest of its dies has left, its own claim taken off."""
        return self._manager.left_on(self.dies)

    def release(self) -> None:
        """Give the dies back. Idempotent."""
        self._manager.release(self)


class DieManager:
    """The dies of the process and the models on them. Safe from any thread.

    A die that is named holds one model: another one is a conflict (reference, `POST
    /admin/models/load`, 507 die binding conflict). Where nobody names a die, the model gets a free
    one, and where there is none the one with most room left.
    """

    def __init__(self, dies: Sequence[Die] = ()) -> None:
        """Hold these dies, rising by ordinal; without any the process is one without a die."""
        self._dies = {die.ordinal: die for die in dies}
        self._lock = threading.Lock()
        self._bindings: list[Binding] = []

    @property
    def device(self) -> Any:
        """A device of JAX that is a die; None without one."""
        return next((die.device for die in self._dies.values()), None)

    @property
    def local(self) -> tuple[Die, ...]:
        """Those of this process."""
        return tuple(die for die in self._dies.values() if die.is_local)

    def __len__(self) -> int:
        """How many dies there are."""
        return len(self._dies)

    def check(self, ordinals: Sequence[int]) -> None:
        """Refuse ordinals, at least one, that no load can be given.

        Raises:
            LoadFailed: there are no dies at all, or none of that ordinal.
            InvalidRequest: one is named twice.
        """
        named = ", ".join(map(str, ordinals))
        if not self._dies:
            raise LoadFailed(
                LoadFailure.NO_ACCELERATOR,
                f"dies were named ({named}), but this server has no accelerator with a die "
                "visible; leave them out or run another build",
            )
        missing = [ordinal for ordinal in ordinals if ordinal not in self._dies]
        if missing:
            raise LoadFailed(
                LoadFailure.NO_ACCELERATOR,
                f"dies: expected ordinals of visible dies ({_shown(self._dies)}; see /admin/dies), "
                f"got {missing[0]}",
            )
        if len(set(ordinals)) != len(ordinals):
            raise InvalidRequest(f"dies: expected each die once, got {named}")
        if not any(self._dies[ordinal].is_local for ordinal in ordinals):
            raise InvalidRequest(
                f"dies: expected at least one of the host that serves, got {named} of others"
            )

    def bind(self, name: str, ordinals: Sequence[int] | None, need: int) -> Binding:
        """Choose the dies of a model that will be loaded.

        Args:
            name: what it is served under.
            ordinals: the dies that were named; None, or none of them, for one that the manager
                chooses.
            need: bytes that the model takes at the least on each of its dies.

        Raises:
            LoadFailed: see `check`; another model is on a named die; no die has so much room.
            InvalidRequest: see `check`.
        """
        if ordinals:
            self.check(ordinals)
        with self._lock:
            dies: tuple[Die, ...]
            if ordinals:
                dies = tuple(self._dies[ordinal] for ordinal in ordinals)
                self._check_unbound(name, dies)
            else:
                dies = (self._best(need),)
            for die in dies:
                free = self._free(die)
                if need > free:
                    raise LoadFailed(
                        LoadFailure.NO_CAPACITY,
                        f"the model needs about {need / 1e6:.0f} MB on die {die.ordinal}, of whose "
                        f"{die.budget / 1e6:.0f} MB {free / 1e6:.0f} MB are free; name more dies "
                        "or unload another model first",
                    )
            binding = Binding(self, name, dies, need)
            self._bindings.append(binding)
            return binding

    def release(self, binding: Binding) -> None:
        """See `Binding.release`."""
        with self._lock:
            self._bindings = [held for held in self._bindings if held is not binding]

    def claimed(self, die: Die) -> int:
        """Bytes of a die that all models on it claim together."""
        with self._lock:
            return self._claimed(die)

    def left_on(self, dies: Sequence[Die]) -> int:
        """Bytes that nobody claims on the fullest of some dies."""
        with self._lock:
            return min(self._free(die) for die in dies)

    def status(self) -> tuple[DieStatus, ...]:
        """Every die by ordinal (reference, `GET /admin/dies`)."""
        with self._lock:
            return tuple(self._row(die) for die in self._dies.values())

    def _row(self, die: Die) -> DieStatus:
        on_it = self._on(die)
        return DieStatus(
            die=die.ordinal,
            card=die.card,
            model=on_it[0].name if on_it else "",
            n_models=len(on_it),
            vram_budget=die.budget,
            vram_used=sum(binding.held(die.ordinal) for binding in on_it),
        )

    def _best(self, need: int) -> Die:
        """Of those here with room a free one, then the one with most room; of equal ones the
        first."""
        if not self._dies:
            raise LoadFailed(LoadFailure.NO_ACCELERATOR, "no die is visible to put a model on")

        def merit(die: Die) -> tuple[bool, bool, int]:
            free = self._free(die)
            return need <= free, not self._on(die), free

        return max(self.local, key=merit)

    def _check_unbound(self, name: str, dies: Sequence[Die]) -> None:
        for die in dies:
            others = self._on(die)
            if others:
                raise LoadFailed(
                    LoadFailure.NO_CAPACITY,
                    f"die binding conflict: die {die.ordinal} holds {others[0].name!r:.100} and "
                    f"cannot be named for {name!r:.100}; unload that model or name other dies",
                )

    def _on(self, die: Die) -> list[Binding]:
        return [binding for binding in self._bindings if die in binding.dies]

    def _free(self, die: Die) -> int:
        return max(die.budget - self._claimed(die), 0)

    def _claimed(self, die: Die) -> int:
        return sum(binding.claimed(die.ordinal) for binding in self._on(die))


def _shown(ordinals: Mapping[int, Die]) -> str:
    return ", ".join(map(str, ordinals))
