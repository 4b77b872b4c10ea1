"""Which instance of a name takes a request."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from pantheon.engine.served_model import ServedModel

_MOST_REMEMBERED: Final = 8192
"""Sessions whose instance is remembered beside those that the instances know themselves."""


class Replicas:
    """Chooses among the replicas of a name. Safe from any thread.

    A session stays where its cache is. One that no instance holds goes to the least loaded, and
    what follows under its id goes there too, although it may not have begun yet.
    """

    def __init__(self) -> None:
        """Remember nothing yet."""
        self._lock = threading.Lock()
        self._homes: OrderedDict[tuple[str, str], weakref.ref[ServedModel]] = OrderedDict()

    def choose(self, instances: Sequence[ServedModel], session_id: str | None) -> ServedModel:
        """The instance for a request that begins or goes on with a session, or has none.

        Args:
            instances: all of one name, at least one.
        """
        if len(instances) == 1:
            return instances[0]
        if session_id is None:
            return least_loaded(instances)
        key = (instances[0].id, session_id)
        with self._lock:
            home = self._known(instances, key) or least_loaded(instances)
            self._homes[key] = weakref.ref(home)
            self._homes.move_to_end(key)
            while len(self._homes) > _MOST_REMEMBERED:
                self._homes.popitem(last=False)
            return home

    def find(self, instances: Sequence[ServedModel], session_id: str) -> ServedModel:
        """The instance of a session; the first one for a session that none knows."""
        with self._lock:
            return self._known(instances, (instances[0].id, session_id)) or instances[0]

    def _known(self, instances: Sequence[ServedModel], key: tuple[str, str]) -> ServedModel | None:
        for instance in instances:
            if instance.holds_session(key[1]):
                return instance
        remembered = self._homes.get(key)
        home = None if remembered is None else remembered()
        return home if any(home is instance for instance in instances) else None


def least_loaded(instances: Sequence[ServedModel]) -> ServedModel:
    """The one with the fewest requests running and waiting; of equal ones the first."""
    return min(instances, key=lambda instance: instance.load)
