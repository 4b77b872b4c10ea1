"""One generation of the scripted engine."""

from __future__ import annotations

import time
from collections.abc import Callable

from pantheon.engine.events import Event, Failed, Finished, Usage
from pantheon.engine.requests import CompletionRequest
from pantheon.engine.status import ModelStatus
from pantheon.engine.testing.rows import Rows
from pantheon.engine.testing.script import Script, perform


class ScriptedCompletion:
    """Implements `pantheon.engine.face.Completion`: its events are made as they are asked for."""

    def __init__(
        self,
        model: ModelStatus,
        request: CompletionRequest,
        script: Script,
        prompt_tokens: int,
        rows: Rows,
        on_cancel: Callable[[], None],
    ) -> None:
        """Play `script` on `model`; `rows` are the model's, `on_cancel` counts a cancellation."""
        self._model = model
        self._script = script
        self._prompt_tokens = prompt_tokens
        self._rows = rows
        self._on_cancel = on_cancel
        self._played = perform(script, request, model.context_window - prompt_tokens + 1)
        self._sent = 0
        self._done = False
        self._next_at = 0.0

    @property
    def model_id(self) -> str:
        """See `Completion.model_id`."""
        return self._model.id

    def wait_admitted(self, timeout: float) -> bool:
        """See `Completion.wait_admitted`."""
        admitted = self._rows.wait(id(self), timeout)
        if admitted and not self._next_at:
            self._next_at = time.monotonic() + self._script.token_seconds
        return admitted

    def next_event(self, timeout: float) -> Event | None:
        """See `Completion.next_event`."""
        wait = self._next_at - time.monotonic()
        if wait > 0:
            time.sleep(min(wait, timeout))
            if wait > timeout:
                return None
        self._next_at += self._script.token_seconds
        if self._rows.closed or self._sent == self._script.fails_after:
            self._finish()
            return Failed("the generation failed")
        if self._sent < len(self._played.events):
            self._sent += 1
            return self._played.events[self._sent - 1]
        self._finish()
        return Finished(self._played.reason, self._usage(), self._played.format_closed)

    def cancel(self) -> None:
        """See `Completion.cancel`."""
        if not self._done:
            self._finish()
            self._on_cancel()

    def _finish(self) -> None:
        self._done = True
        self._rows.leave(id(self))

    def _usage(self) -> Usage:
        counted = self._played.counts[-1] if self._played.counts else 0
        sampled = counted + (1 if self._played.reason == "stop" else 0)
        return Usage(
            prompt_tokens=self._prompt_tokens,
            completion_tokens=sampled,
            cached_tokens=0,
            # The last token is sampled and never fed.
            kv_used=self._prompt_tokens + sampled - 1,
            kv_cap=self._model.context_window,
        )
