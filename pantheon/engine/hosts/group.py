"""The first host's side: the followers, and what they are told."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from pantheon.engine.errors import ServerShuttingDown
from pantheon.engine.hosts.channel import Channel, ChannelClosed
from pantheon.engine.hosts.messages import (
    Beat,
    Close,
    FromFollower,
    FromLeader,
    Open,
    Ready,
    Refused,
    Reset,
    Start,
    StepFailed,
)

_log = logging.getLogger(__name__)

SILENCE_S: Final = 30.0
"""Longest time without a word of a follower, which says one each second from a thread of its own:
one call of a library may keep that thread from running for some seconds."""

_LOOK_S: Final = 0.5
"""Seconds between looks at whether those who wait to tell something still can."""


class HostLost(Exception):
    """A follower is gone, and nothing that spans hosts can go on; or it can't do what is asked."""


class HostGroup:
    """Every follower, in one order of messages. Safe from any thread.

    What spans hosts ends with the first follower that goes away: a step that has begun may wait for
    it for ever, so that whoever waits for the step is told by `when_lost` instead.
    """

    def __init__(
        self,
        channels: Mapping[int, Channel[FromFollower]],
        memory: list[int],
        silence_s: float = SILENCE_S,
    ) -> None:
        """Take over the channels to followers that have said hello.

        Args:
            channels: by number of process.
            memory: bytes of each die of every process, in the order of JAX's devices.
            silence_s: seconds without a word after which a follower is gone.
        """
        self._silence_s = silence_s
        self.memory = tuple(memory)
        self._channels = dict(channels)
        self._telling = threading.RLock()
        self._changed = threading.Condition()
        self._ready: dict[int, set[int]] = {}
        self._refused: dict[int, str] = {}
        self._failed: dict[int, str] = {}
        self._lost: str | None = None
        self._closed = False
        self._draining = False
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
            HostLost: one of them is gone, or a step of this model failed there: `Reset` comes next.
        """
        # Who holds it may stand in a step that never ends.
        while not self._telling.acquire(timeout=_LOOK_S):
            self._check()
        try:
            self._check()
            if isinstance(message, Reset):
                self._failed.pop(message.model, None)
            elif not isinstance(message, Open | Start | Close):
                self.check_steps(message.model)
            for process, channel in self._channels.items():
                try:
                    channel.send(message)
                except ChannelClosed as error:
                    self._lose(process, str(error))
                    self._check()
            yield
        finally:
            self._telling.release()

    def tell(self, message: FromLeader) -> None:
        """The same where nothing is dispatched here.

        Raises:
            HostLost: see `telling`.
        """
        with self.telling(message):
            pass

    def check_steps(self, model: int) -> None:
        """Ask after what a step gave is here: that of a follower may have failed.

        Raises:
            HostLost: one failed since the last `Reset`; why is the error's text.
        """
        reason = self._failed.get(model)
        if reason is not None:
            raise HostLost(reason)

    def drain(self) -> None:
        """End whoever waits for a load, now and later. Idempotent."""
        with self._changed:
            self._draining = True
            self._changed.notify_all()

    def wait_ready(self, model: int) -> None:
        """Wait until every follower has done what it was told last for a model.

        Raises:
            HostLost: see `telling`, or one of them refused; why is the error's text.
            ServerShuttingDown: `drain` was called.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._lost is not None
                    or self._draining
                    or model in self._refused
                    or len(self._ready.get(model, ())) == len(self._channels)
                )
            )
            self._check()
            if model in self._refused:
                raise HostLost(self._refused[model])
            if self._draining:
                raise ServerShuttingDown("the server is shutting down and loads no model")
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
            self._failed.pop(model, None)
        if self._lost is None and not self._closed:
            try:
                self.tell(Close(model))
            except HostLost as error:
                _log.warning("the followers of model %d cannot be told: %s", model, error)

    def give_up(self, why: str) -> None:
        """End what spans hosts although every follower is still there."""
        self._end(why)

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
                said = channel.receive(self._silence_s)
            except ChannelClosed as error:
                self._lose(process, str(error))
                return
            with self._changed:
                match said:
                    case Beat():
                        continue
                    case StepFailed(model=model, reason=reason):
                        self._failed[model] = f"host {process}: {reason:.500}"
                        _log.error("a step of model %d failed on %s", model, self._failed[model])
                    case Ready(model=model):
                        self._ready.setdefault(model, set()).add(process)
                    case Refused(model=model, reason=reason):
                        self._refused[model] = f"host {process}: {reason:.500}"
                    case _:
                        _log.warning("host %d says %r again", process, type(said).__name__)
                self._changed.notify_all()

    def _lose(self, process: int, why: str) -> None:
        self._end(f"host {process} is gone ({why})")
        # One that only stood still must not go on, and who sends to it must not wait.
        self._channels[process].close()

    def _end(self, why: str) -> None:
        with self._changed:
            if self._lost is not None or self._closed:
                return
            self._lost = why
            calls = tuple(self._when_lost.values())
            self._changed.notify_all()
        _log.error(
            "%s: models over several hosts end here; restart every process of this server",
            self._lost,
        )
        for call in calls:
            call(why)
