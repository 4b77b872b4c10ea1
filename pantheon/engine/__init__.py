"""The public face of the engine: what handlers may use of it."""

from pantheon.engine.errors import (
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
)
from pantheon.engine.events import Event, Failed, Finished, FinishReason, TextDelta, Usage
from pantheon.engine.face import Completion, Engine
from pantheon.engine.requests import CompletionRequest, Sampling
from pantheon.engine.status import AttentionStatus, DieStatus, ModelStatus, PlatformStatus

__all__ = [
    "AttentionStatus",
    "Completion",
    "CompletionRequest",
    "ContextOverBudget",
    "DieStatus",
    "Engine",
    "EngineError",
    "Event",
    "Failed",
    "FinishReason",
    "Finished",
    "GenerationFailed",
    "InvalidRequest",
    "LoadFailed",
    "LoadFailure",
    "ModelNotFound",
    "ModelStatus",
    "NoModelsLoaded",
    "PlatformStatus",
    "Sampling",
    "ServerBusy",
    "ServerMemoryConstrained",
    "ServerShuttingDown",
    "TextDelta",
    "Usage",
]
