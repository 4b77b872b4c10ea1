"""What the engine refuses, as exceptions.

The engine knows nothing of HTTP; `pantheon.http.errors` maps each class to a status and a
`type` of the reference in one table.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

SESSION_RETRY_AFTER_S: Final = 30
"""Seconds after which a session slot may be free (reference, `model_at_session_capacity`)."""


class EngineError(Exception):
    """Base of every refusal of the engine. `str(error)` is fit to be shown to a client."""


class InvalidRequest(EngineError):
    """The request lacks what it needs, or cannot be rendered into a prompt."""


class NoModelsLoaded(EngineError):
    """No model is loaded."""


class ModelNotFound(EngineError):
    """Several models are loaded and the requested name is none of them."""


class ContextOverBudget(EngineError):
    """The prompt exceeds the effective window.

    Attributes:
        kv_used: tokens that the prompt needs.
        kv_cap: the effective window in tokens.
    """

    def __init__(self, kv_used: int, kv_cap: int) -> None:
        # Agents recognise an overflow by these words and then compact the conversation.
        super().__init__(
            f"the prompt of {kv_used} tokens (kv_used={kv_used}) exceeds the available context "
            f"size: this model's maximum context length is {kv_cap} tokens (kv_cap={kv_cap}); "
            "shorten the conversation and retry (context_length_exceeded)"
        )
        self.kv_used = kv_used
        self.kv_cap = kv_cap


class ServerBusy(EngineError):
    """Every row is taken and the queue is full, or the wait in the queue ran out.

    Attributes:
        retry_after: seconds to wait before a retry, if the scheduler has an estimate.
    """

    def __init__(self, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class SessionCapacity(EngineError):
    """A new session id while every session slot holds a live session.

    Attributes:
        retry_after: seconds to wait before a retry.
    """

    def __init__(self, message: str, retry_after: int = SESSION_RETRY_AFTER_S) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class SessionNotFound(EngineError):
    """There is no live session of that id with anything to export."""


class SessionBusy(EngineError):
    """A turn is in flight on the session."""


class SessionCachingDisabled(EngineError):
    """The model has no session cache."""


class SessionExportUnsupported(EngineError):
    """The model's architecture has no snapshot format."""


class BadSessionBlob(EngineError):
    """A blob is corrupt, of another architecture, or does not fit the model."""


class WeightsVersionMismatch(EngineError):
    """A blob was captured under other weights."""


class WatchUnavailable(EngineError):
    """The table of watches is full."""


class ServerMemoryConstrained(EngineError):
    """Memory pressure: admission refused the prompt."""


class ServerShuttingDown(EngineError):
    """The engine is draining and admits nothing new."""


class GenerationFailed(EngineError):
    """The generation itself failed. The cause is in the server's log, never in the message."""


class LoadFailure(Enum):
    """Why a model could not be loaded, in the classes that the reference tells apart."""

    FILE_NOT_FOUND = "file not found"
    CONFLICT = "already loaded"
    NO_ACCELERATOR = "no accelerator"
    NO_CAPACITY = "no capacity"
    OTHER = "other"


class LoadFailed(EngineError):
    """A model could not be loaded.

    Attributes:
        failure: the class of the failure.
    """

    def __init__(self, failure: LoadFailure, message: str) -> None:
        super().__init__(message)
        self.failure = failure


class UnloadFailure(Enum):
    """Why a model could not be unloaded, in the classes that the reference tells apart."""

    NOT_LOADED = "not loaded"
    CONFLICT = "already unloading"
    OTHER = "other"


class UnloadFailed(EngineError):
    """A model could not be unloaded.

    Attributes:
        failure: the class of the failure.
    """

    def __init__(self, failure: UnloadFailure, message: str) -> None:
        super().__init__(message)
        self.failure = failure
