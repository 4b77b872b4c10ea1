"""Every refusal as a status and a body: the one table from errors to HTTP (reference, errors)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from pantheon.engine import (
    BadSessionBlob,
    ContextOverBudget,
    EngineError,
    GenerationFailed,
    InvalidRequest,
    LoadFailed,
    LoadFailure,
    ModelNotFound,
    NoModelsLoaded,
    ServerBusy,
    ServerMemoryConstrained,
    ServerShuttingDown,
    SessionBusy,
    SessionCachingDisabled,
    SessionCapacity,
    SessionExportUnsupported,
    SessionNotFound,
    UnloadFailed,
    UnloadFailure,
    WatchUnavailable,
    WeightsVersionMismatch,
)
from pantheon.generated.models import Error, ErrorDetail

INVALID_REQUEST: Final = "invalid_request_error"
SERVER_ERROR: Final = "server_error"
SERVER_BUSY: Final = "server_busy"

LOAD_FAILED: Final = "load_failed"
UNLOAD_FAILED: Final = "unload_failed"

_ENGINE_ERRORS: Final[Mapping[type[EngineError] | LoadFailure | UnloadFailure, tuple[int, str]]] = {
    InvalidRequest: (400, INVALID_REQUEST),
    SessionCachingDisabled: (400, "session_caching_disabled"),
    SessionExportUnsupported: (400, "session_export_unsupported"),
    BadSessionBlob: (400, "bad_session_blob"),
    ModelNotFound: (404, "model_not_found"),
    SessionNotFound: (404, "session_not_found"),
    WeightsVersionMismatch: (409, "weights_version_mismatch"),
    ContextOverBudget: (422, "context_over_budget"),
    ServerBusy: (429, SERVER_BUSY),
    SessionBusy: (429, "session_busy"),
    SessionCapacity: (429, "model_at_session_capacity"),
    NoModelsLoaded: (503, "no_models_loaded"),
    ServerMemoryConstrained: (503, "server_memory_constrained"),
    ServerShuttingDown: (503, "server_shutting_down"),
    WatchUnavailable: (503, "watch_unavailable"),
    GenerationFailed: (500, SERVER_ERROR),
    LoadFailure.NO_ACCELERATOR: (400, LOAD_FAILED),
    LoadFailure.FILE_NOT_FOUND: (404, LOAD_FAILED),
    LoadFailure.CONFLICT: (409, LOAD_FAILED),
    LoadFailure.OTHER: (500, LOAD_FAILED),
    LoadFailure.NO_CAPACITY: (507, LOAD_FAILED),
    UnloadFailure.NOT_LOADED: (404, UNLOAD_FAILED),
    UnloadFailure.CONFLICT: (409, UNLOAD_FAILED),
    UnloadFailure.OTHER: (500, UNLOAD_FAILED),
}
"""By class, and for those that carry a class of failure by that."""

_SHUTDOWN_RETRY_AFTER: Final = 1
"""Seconds (reference, error responses, `server_shutting_down`)."""


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """An error response.

    Attributes:
        status: HTTP status.
        type: the reference's error type.
        message: text for the client; never a traceback, a path or a class name of ours.
        retry_after: seconds for the Retry-After header.
    """

    status: int
    type: str
    message: str
    retry_after: int | None = None

    def body(self) -> bytes:
        """The reference's error body as JSON in UTF-8."""
        message = self.message.encode("utf-8", "replace").decode("utf-8")
        return msgspec.json.encode(Error(error=ErrorDetail(message=message, type=self.type)))

    def headers(self) -> dict[str, str]:
        """Headers beside those that every response carries."""
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}


class RequestRefused(Exception):
    """A request that is refused before any operation sees it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.answer = ErrorAnswer(status, INVALID_REQUEST, message)


UNKNOWN_ROUTE: Final = ErrorAnswer(404, "not_found", "unknown route")
"""Any path or method that is no route (reference, Routes)."""

INTERNAL_ERROR: Final = ErrorAnswer(500, SERVER_ERROR, "internal error; see the server's log")
"""What a client learns of a defect."""


def engine_answer(error: EngineError) -> ErrorAnswer:
    """The response to a refusal of the engine."""
    keys = [error.failure] if isinstance(error, LoadFailed | UnloadFailed) else type(error).__mro__
    for key in keys:
        if key in _ENGINE_ERRORS:
            status, name = _ENGINE_ERRORS[key]
            return ErrorAnswer(status, name, str(error), _retry_after(error))
    return INTERNAL_ERROR


def _retry_after(error: EngineError) -> int | None:
    if isinstance(error, ServerShuttingDown):
        return _SHUTDOWN_RETRY_AFTER
    return error.retry_after if isinstance(error, ServerBusy | SessionCapacity) else None
