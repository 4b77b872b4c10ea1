"""The two interfaces through which handlers use an engine, real or scripted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pantheon.engine.events import Event
from pantheon.engine.requests import CompletionRequest
from pantheon.engine.status import DieStatus, ModelStatus, PlatformStatus


class Completion(Protocol):
    """One accepted generation, perhaps still queued. Used by one thread; `cancel` from any.

    The last event is `Finished` or `Failed`; nothing follows it.
    """

    @property
    def model_id(self) -> str:
        """The served name of the model that generates."""
        ...

    def wait_admitted(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for a decode row; False when still queued.

        A response head may be sent once this is True: from then on every failure is an event.

        Raises:
            ServerBusy: the wait in the queue ran out.
            ServerShuttingDown: the engine drains and the request had not started.
        """
        ...

    def next_event(self, timeout: float) -> Event | None:
        """Wait up to `timeout` seconds for the next event; None when none came."""
        ...

    def cancel(self) -> None:
        """End the generation and free its row within one step. Idempotent, a no-op when done."""
        ...


class Engine(Protocol):
    """Models by name, and the generations on them. Safe to call from any thread."""

    def platform(self) -> PlatformStatus:
        """What this process is and runs on."""
        ...

    def models(self) -> Sequence[ModelStatus]:
        """Every live instance, in the order of loading."""
        ...

    def dies(self) -> Sequence[DieStatus]:
        """Every die held, by ordinal."""
        ...

    def submit(self, request: CompletionRequest) -> Completion:
        """Route, render, tokenise and queue a request. Does not wait for a row.

        Raises:
            NoModelsLoaded, ModelNotFound, InvalidRequest, ContextOverBudget, ServerBusy,
            ServerMemoryConstrained, ServerShuttingDown.
        """
        ...

    def close(self) -> None:
        """Stop every generation and free what the engine holds. Idempotent."""
        ...
