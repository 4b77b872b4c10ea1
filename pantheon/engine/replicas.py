"""Which instance of a name takes a request."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from pantheon.engine.served_model import ServedModel

_MOST_REMEMBERED: Final = 8192
"""Sessions whose instance is remembered beside those that the instances know themselves."""


class Replicas:
    """Chooses among the replicas of a name, of those that serve. Safe from any thread.

    A session stays where its cache is. One that no instance holds goes to the least loaded of those
    that have a session slot free, and what follows under its id goes there too, although it may not
    have begun yet.
    """

    def __init__(self) -> None:
        """Remember nothing yet."""
        self._lock = threading.Lock()
        self._homes: OrderedDict[tuple[str, str], weakref.ref[ServedModel]] = OrderedDict()
        self._coming: list[tuple[ServedModel, str | None]] = []

    @contextmanager
    def chosen(
        self, instances: Sequence[ServedModel], session_id: str | None
    ) -> Iterator[ServedModel]:
        """The instance for a request that begins or goes on with a session, or has none.

        Within the context the request is on its way: until the instance counts it, the choice of
        others does.

        Args:
            instances: all of one name, at least one.
        """
        with self._lock:
            instance = self._choose(serving(instances), session_id)
            coming = (instance, session_id)
            self._coming.append(coming)
        try:
            yield instance
        finally:
            with self._lock:
                self._coming.remove(coming)

    def find(self, instances: Sequence[ServedModel], session_id: str) -> ServedModel:
        """The instance of a session; the first one for a session that none knows."""
        instances = serving(instances)
        with self._lock:
            held = _holder(instances, session_id)
            return held or self._remembered(instances, session_id) or instances[0]

    def _choose(self, instances: Sequence[ServedModel], session_id: str | None) -> ServedModel:
        if len(instances) == 1:
            return instances[0]
        if session_id is None:
            return min(instances, key=self._pressure)
        home = _holder(instances, session_id)
        if home is None:
            home = self._remembered(instances, session_id)
            if home is None or self._is_full(home, session_id):
                home = min(
                    instances,
                    key=lambda one: (self._is_full(one, session_id), *self._pressure(one)),
                )
        key = (home.id, session_id)
        self._homes[key] = weakref.ref(home)
        self._homes.move_to_end(key)
        while len(self._homes) > _MOST_REMEMBERED:
            self._homes.popitem(last=False)
        return home

    def _remembered(self, instances: Sequence[ServedModel], session_id: str) -> ServedModel | None:
        remembered = self._homes.get((instances[0].id, session_id))
        home = None if remembered is None else remembered()
        return home if any(home is instance for instance in instances) else None

    def _pressure(self, instance: ServedModel) -> tuple[int, float]:
        """How many requests would wait for a row there, and the share of its rows that is taken;
        of equal ones the first is the least loaded."""
        load = instance.load + sum(one is instance for one, _ in self._coming)
        rows = max(instance.rows, 1)
        return max(load + 1 - rows, 0), load / rows

    def _is_full(self, instance: ServedModel, session_id: str) -> bool:
        """Whether others have every session slot, or will."""
        others = {
            other
            for one, other in self._coming
            if one is instance and other is not None and not one.holds_session(other)
        } - {session_id}
        return instance.free_sessions <= len(others)


def serving(instances: Sequence[ServedModel]) -> Sequence[ServedModel]:
    """Those that serve; where none does all of them, to say why."""
    return [instance for instance in instances if instance.serves] or instances


def _holder(instances: Sequence[ServedModel], session_id: str) -> ServedModel | None:
    return next((one for one in instances if one.holds_session(session_id)), None)
