"""What the registry asks of a loaded model, and how it gets one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from pantheon.engine.config import EngineConfig, ModelOptions
from pantheon.engine.errors import EngineError
from pantheon.engine.face import Completion, Watch
from pantheon.engine.requests import CompletionRequest
from pantheon.engine.snapshot import SessionSnapshot
from pantheon.engine.status import ModelStatus


class ServedModel(Protocol):
    """One loaded model; `ModelInstance` is the real one.

    Everything but what is said here is as in `Engine`, of one model.
    """

    @property
    def id(self) -> str:
        """The served name."""
        ...

    @property
    def dies(self) -> tuple[int, ...]:
        """Ordinals of the dies that it is on; none on the host."""
        ...

    @property
    def weights_version(self) -> int:
        """Tells its weights apart; see `pantheon.engine.gguf.weights_version`."""
        ...

    @property
    def serves(self) -> bool:
        """False once it can take nothing any more, for good."""
        ...

    @property
    def load(self) -> int:
        """Requests that run or wait."""
        ...

    @property
    def rows(self) -> int:
        """Requests that it decodes at once right now."""
        ...

    @property
    def free_sessions(self) -> int:
        """Sessions that may begin."""
        ...

    def holds_session(self, session_id: str) -> bool:
        """Whether it has a live session of that id."""
        ...

    def status(self) -> ModelStatus:
        """Its row."""
        ...

    def submit(self, request: CompletionRequest) -> Completion:
        """Queue a request."""
        ...

    def export_session(self, session_id: str) -> SessionSnapshot:
        """Read a session out."""
        ...

    def restore_session(self, session_id: str, blob: bytes, tokens: Sequence[int]) -> int:
        """Put a session in."""
        ...

    @property
    def largest_blob_bytes(self) -> int:
        """Bytes of the largest blob that fits."""
        ...

    def release_session(self, session_id: str) -> None:
        """Free a session."""
        ...

    def watch_session(self, session_id: str) -> Watch:
        """Hold a session."""
        ...

    @property
    def prefill_tokens_per_s(self) -> float:
        """Measured, or the fallback."""
        ...

    def drain(self, refusal: EngineError) -> None:
        """Refuse what waits and what comes with `refusal`; what runs goes on. Idempotent."""
        ...

    @property
    def idle(self) -> bool:
        """True when nothing runs or waits."""
        ...

    def close(self) -> None:
        """End everything that runs and give back all that is held. Idempotent."""
        ...


Loader = Callable[
    [ModelOptions, EngineConfig, Callable[[], None], Callable[[int], None]], ServedModel
]
"""Loads a model. Calls the third argument between its steps, and the fourth with the version of the
weights once that is known; each raises to stop it."""
