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
from pantheon.engine.events import (
    Event,
    Failed,
    Finished,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    TokenAlternative,
    TokenLogprob,
    Usage,
)
from pantheon.engine.face import Completion, Engine
from pantheon.engine.requests import CompletionRequest, JsonFormat, Sampling
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
    "JsonFormat",
    "LoadFailed",
    "LoadFailure",
    "ModelNotFound",
    "ModelStatus",
    "NoModelsLoaded",
    "PlatformStatus",
    "ReasoningDelta",
    "Sampling",
    "ServerBusy",
    "ServerMemoryConstrained",
    "ServerShuttingDown",
    "TextDelta",
    "TokenAlternative",
    "TokenLogprob",
    "Usage",
]
