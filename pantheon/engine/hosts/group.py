"""The first host's side: the followers, and what they are told."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from pantheon.engine.hosts.channel import Channel, ChannelClosed
from pantheon.engine.hosts.messages import Close, FromFollower, FromLeader, Ready, Refused

_log = logging.getLogger(__name__)


class HostLost(Exception):
    """A follower is gone, and nothing that spans hosts can go on; or it can't do what is asked."""


class HostGroup:
    """Every follower, in one order of messages. Safe from any thread.

    What spans hosts ends with the first follower that goes away: a step that has begun may wait for
    it for ever, so that whoever waits for the step is told by `when_lost` instead.
    """

    def __init__(self, channels: Mapping[int, Channel[FromFollower]], memory: list[int]) -> None:
        """Take over the channels to followers that have said hello.

        Args:
            channels: by number of process.
            memory: bytes of each die of every process, in the order of JAX's devices.
        """
        self.memory = tuple(memory)
        self._channels = dict(channels)
        self._telling = threading.RLock()
        self._changed = threading.Condition()
        self._ready: dict[int, set[int]] = {}
        self._refused: dict[int, str] = {}
        self._lost: str | None = None
        self._closed = False
        self._models = 0
        self._when_lost: dict[int, Callable[[str], None]] = {}
        for process, channel in self._channels.items():
            threading.Thread(
                target=self._listen, args=(process, channel), name=f"host {process}", daemon=True
            ).start()

    @property
    def lost(self) -> str | None:
        """Why nothing can be told any more; None while it can."""
        return self._lost

    def number(self) -> int:
        """A number for a new model."""
        with self._changed:
            self._models += 1
            return self._models

    @contextmanager
    def telling(self, message: FromLeader) -> Iterator[None]:
        """Tell every follower, and hold others off until the block has dispatched the same here.

        Raises:
            HostLost: one of them is gone.
        """
        with self._telling:
            self._check()
            for process, channel in self._channels.items():
                try:
                    channel.send(message)
                except ChannelClosed as error:
                    self._lose(process, str(error))
                    self._check()
            yield

    def tell(self, message: FromLeader) -> None:
        """The same where nothing is dispatched here.

        Raises:
            HostLost: see `telling`.
        """
        with self.telling(message):
            pass

    def wait_ready(self, model: int) -> None:
        """Wait until every follower has done what it was told last for a model.

        Raises:
            HostLost: see `telling`, or one of them refused; why is the error's text.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._lost is not None
                    or model in self._refused
                    or len(self._ready.get(model, ())) == len(self._channels)
                )
            )
            self._check()
            if model in self._refused:
                raise HostLost(self._refused[model])
            self._ready.pop(model, None)

    def when_lost(self, model: int, call: Callable[[str], None]) -> None:
        """Have a model told, from another thread, once a follower is gone."""
        with self._changed:
            self._when_lost[model] = call
            lost = self._lost
        if lost is not None:
            call(lost)

    def forget(self, model: int) -> None:
        """A model ends; its followers end too, where there are any left. Idempotent."""
        with self._changed:
            self._when_lost.pop(model, None)
            self._refused.pop(model, None)
            self._ready.pop(model, None)
        if self._lost is None and not self._closed:
            try:
                self.tell(Close(model))
            except HostLost as error:
                _log.warning("the followers of model %d cannot be told: %s", model, error)

    def close(self) -> None:
        """End every follower. Idempotent."""
        self._closed = True
        for channel in self._channels.values():
            channel.close()

    def _check(self) -> None:
        if self._lost is not None:
            raise HostLost(self._lost)

    def _listen(self, process: int, channel: Channel[FromFollower]) -> None:
        while True:
            try:
                said = channel.receive()
            except ChannelClosed as error:
                self._lose(process, str(error))
                return
            with self._changed:
                match said:
                    case Ready(model=model):
                        self._ready.setdefault(model, set()).add(process)
                    case Refused(model=model, reason=reason):
                        self._refused[model] = f"host {process}: {reason:.500}"
                    case _:
                        _log.warning("host %d says %r again", process, type(said).__name__)
                self._changed.notify_all()

    def _lose(self, process: int, why: str) -> None:
        with self._changed:
            if self._lost is not None or self._closed:
                return
            self._lost = f"host {process} is gone ({why})"
            calls = tuple(self._when_lost.values())
            self._changed.notify_all()
        _log.error(
            "%s: models over several hosts end here; restart every process of this server",
            self._lost,
        )
        for call in calls:
            call(self._lost)
