"""The two interfaces through which handlers use an engine, real or scripted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pantheon.engine.config import ModelOptions
from pantheon.engine.events import Event
from pantheon.engine.requests import CompletionRequest
from pantheon.engine.snapshot import SessionSnapshot
from pantheon.engine.status import DieStatus, ModelStatus, PlatformStatus, PrefillRate


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
            ModelNotFound: its model is unloaded and the request had not started.
        """
        ...

    def next_event(self, timeout: float) -> Event | None:
        """Wait up to `timeout` seconds for the next event; None when none came."""
        ...

    def cancel(self) -> None:
        """End the generation and free its row within one step. Idempotent, a no-op when done."""
        ...


class Watch(Protocol):
    """A hold on a session (reference, `GET /session/watch`). Used by one thread."""

    def wait_ended(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds; True when the engine has ended the hold.

        It does so when the model is unloaded, when the server drains, and when a newer watch
        of the same session took this one's place in a full table.
        """
        ...

    def close(self) -> None:
        """Let go: the session's grace period begins if no other watch holds it. Idempotent."""
        ...


class Engine(Protocol):
    """Models by name, and the generations on them. Safe to call from any thread.

    Where a session's methods take `model`, None is the default model, the one loaded first;
    any other name must be that of a loaded model (ModelNotFound), also when there is only one.
    """

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
            SessionCapacity, ServerMemoryConstrained, ServerShuttingDown.
            GenerationFailed: the model serves no more.
        """
        ...

    def load(self, options: ModelOptions) -> ModelStatus | None:
        """Load a model and serve it. Waits for other loads to end: one at a time.

        Returns:
            Its row; None when it was unloaded again before it could be read.

        Raises:
            LoadFailed: with its class; nothing of the model is kept.
            ServerShuttingDown: the engine drains.
        """
        ...

    def unload(self, name: str) -> None:
        """Stop serving a model, wait (bounded) for its generations, and free it.

        Raises:
            UnloadFailed: with its class.
        """
        ...

    def export_session(self, model: str | None, session_id: str) -> SessionSnapshot:
        """Read a session's most recently used conversation out of the cache.

        Raises:
            ModelNotFound, SessionCachingDisabled, SessionExportUnsupported, SessionNotFound,
            SessionBusy, ServerShuttingDown.
        """
        ...

    def restore_session(
        self, model: str | None, session_id: str, blob: bytes, tokens: Sequence[int]
    ) -> int:
        """Put an exported conversation into the cache; how many tokens it holds.

        All or nothing: on any error the session is what it was.

        Raises:
            ModelNotFound, SessionCachingDisabled, BadSessionBlob, WeightsVersionMismatch,
            SessionCapacity, ServerShuttingDown.
        """
        ...

    def largest_blob_bytes(self) -> int:
        """Bytes of the largest blob that `restore_session` can take from any loaded model."""
        ...

    def release_session(self, model: str | None, session_id: str) -> None:
        """Free a session and all its conversations now. Idempotent.

        Raises:
            ModelNotFound.
        """
        ...

    def watch_session(self, model: str | None, session_id: str) -> Watch:
        """Hold a session alive, whether it exists yet or not.

        Raises:
            ModelNotFound, SessionCachingDisabled, WatchUnavailable, ServerShuttingDown.
        """
        ...

    def prefill_rate(self, model: str | None) -> PrefillRate:
        """How fast a model prefills; of no model when the name is unknown. Never raises."""
        ...

    def drain(self) -> None:
        """Admit nothing new: what waits is refused, what runs goes on, watches end. Idempotent."""
        ...

    @property
    def idle(self) -> bool:
        """True when no generation runs or waits on any model."""
        ...

    def close(self) -> None:
        """Stop every generation and free what the engine holds. Idempotent."""
        ...
