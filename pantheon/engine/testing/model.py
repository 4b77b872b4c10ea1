"""One model of a scripted engine."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence

from pantheon.engine.config import ModelOptions
from pantheon.engine.errors import (
    ContextOverBudget,
    SessionCachingDisabled,
    SessionExportUnsupported,
)
from pantheon.engine.requests import CompletionRequest
from pantheon.engine.snapshot import SessionSnapshot
from pantheon.engine.status import ModelStatus
from pantheon.engine.testing import blob
from pantheon.engine.testing.completion import ScriptedCompletion
from pantheon.engine.testing.rows import Rows
from pantheon.engine.testing.script import Script, prompt_tokens
from pantheon.engine.testing.sessions import Sessions

_ROWS = 2
_WINDOW = 4096


def scripted_model(
    name: str = "scripted", *, rows: int = _ROWS, context_window: int = _WINDOW
) -> ModelStatus:
    """The row of a model that a ScriptedEngine serves."""
    return ModelStatus(
        id=name,
        path=f"/models/{name}.gguf",
        dies=(),
        vram_bytes=0,
        max_sessions=rows,
        max_concurrent=rows,
        max_concurrent_configured=rows,
        context_window=context_window,
        context_window_configured=context_window,
        tool_choice_required_with_thinking=False,
        attention=None,
    )


def loaded_model(name: str, options: ModelOptions) -> ModelStatus:
    """The row of a model that was loaded with `options`."""
    sessions = options.max_sessions or _ROWS
    rows = options.max_concurrent or sessions
    window = options.ctx_cap or _WINDOW
    return ModelStatus(
        id=name,
        path=str(options.path),
        dies=(),
        vram_bytes=0,
        max_sessions=sessions,
        max_concurrent=rows,
        max_concurrent_configured=rows,
        context_window=min(window, _WINDOW),
        context_window_configured=window,
        tool_choice_required_with_thinking=False,
        attention=None,
    )


class ScriptedModel:
    """Rows, queue and sessions of one model. Safe to use from any thread.

    Attributes:
        status: its row.
        rows: its rows and queue.
        sessions: what its sessions hold; None when it keeps nothing.
    """

    def __init__(
        self, status: ModelStatus, rows: Rows, sessions: Sessions | None, has_snapshots: bool
    ) -> None:
        """Serve `status`; with `has_snapshots` False it has no snapshot format."""
        self.status = status
        self.rows = rows
        self.sessions = sessions
        self._has_snapshots = has_snapshots

    def submit(
        self, request: CompletionRequest, script: Script, on_cancel: Callable[[], None]
    ) -> ScriptedCompletion:
        """See `Engine.submit`."""
        prompt = prompt_tokens(request)
        if len(prompt) > self.status.context_window:
            raise ContextOverBudget(len(prompt), self.status.context_window)
        turn = None
        if self.sessions is not None and request.session_id is not None:
            turn = self.sessions.begin_turn(request.session_id, prompt)
        completion = ScriptedCompletion(
            self.status, request, script, prompt, self.rows, self.sessions, turn, on_cancel
        )
        try:
            self.rows.enter(id(completion))
        except Exception:
            completion.give_up()
            raise
        return completion

    def export(self, session_id: str) -> SessionSnapshot:
        """See `Engine.export_session`."""
        sessions = self.session_cache()
        if not self._has_snapshots:
            raise SessionExportUnsupported("this architecture has no session snapshot format")
        return blob.pack(self._weights_version, sessions.history(session_id))

    def restore(self, session_id: str, data: bytes, tokens: Sequence[int]) -> int:
        """See `Engine.restore_session`."""
        sessions = self.session_cache()
        blob.check(data, tokens, self._weights_version, self.status.context_window)
        sessions.restore(session_id, tuple(tokens))
        return len(tokens)

    @property
    def largest_blob_bytes(self) -> int:
        """See `Engine.largest_blob_bytes`."""
        return 0 if self.sessions is None else blob.blob_bytes(self.status.context_window)

    def session_cache(self) -> Sessions:
        """The sessions.

        Raises:
            SessionCachingDisabled: it keeps none.
        """
        if self.sessions is None:
            raise SessionCachingDisabled(f"the model {self.status.id} has no session cache")
        return self.sessions

    @property
    def _weights_version(self) -> int:
        return zlib.crc32(self.status.path.encode("utf-8", "surrogateescape"))
