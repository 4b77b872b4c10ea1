"""One generation of the scripted engine."""

from __future__ import annotations

import time
from collections.abc import Callable

from pantheon.engine.events import Event, Failed, Finished, Usage
from pantheon.engine.requests import CompletionRequest
from pantheon.engine.status import ModelStatus
from pantheon.engine.testing.rows import Rows
from pantheon.engine.testing.script import Script, perform, token_id, tokens_of
from pantheon.engine.testing.sessions import Sessions, Turn
from pantheon.engine.tools import dialect_for


class ScriptedCompletion:
    """Implements `pantheon.engine.face.Completion`: its events are made as they are asked for."""

    def __init__(
        self,
        model: ModelStatus,
        request: CompletionRequest,
        script: Script,
        prompt: tuple[int, ...],
        rows: Rows,
        sessions: Sessions | None,
        turn: Turn | None,
        on_cancel: Callable[[], None],
    ) -> None:
        """Play `script` on `model`.

        Args:
            model: who plays it.
            request: what was asked.
            script: what to say.
            prompt: the tokens of the request.
            rows: the model's.
            sessions: the model's, where it keeps any.
            turn: of the request's session, where it has one.
            on_cancel: counts a cancellation.
        """
        self._model = model
        self._script = script
        self._prompt = prompt
        self._rows = rows
        self._sessions = sessions
        self._turn = turn
        self._on_cancel = on_cancel
        room = model.context_window - len(prompt) + 1
        self._played = perform(script, request, room, dialect_for(model.id, "scripted", False))
        self._sent = 0
        self._done = False
        self._next_at = 0.0

    @property
    def model_id(self) -> str:
        """See `Completion.model_id`."""
        return self._model.id

    def wait_admitted(self, timeout: float) -> bool:
        """See `Completion.wait_admitted`."""
        try:
            admitted = self._rows.wait(id(self), timeout)
        except Exception:
            self.give_up()
            raise
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
            self.give_up()
            return self._failure()
        if self._sent < len(self._played.events):
            self._sent += 1
            return self._played.events[self._sent - 1]
        usage = self._usage()
        self._end_turn(self._history(usage.kv_used))
        self._finish()
        return Finished(
            self._played.reason,
            usage,
            self._played.format_closed,
            tool_call_error=self._played.tool_call_error,
        )

    def cancel(self) -> None:
        """See `Completion.cancel`."""
        if not self._done:
            self.give_up()
            self._on_cancel()

    def give_up(self) -> None:
        """End without having finished; its session is what it was before."""
        self._end_turn(None)
        self._finish()

    def _end_turn(self, history: tuple[int, ...] | None) -> None:
        turn, self._turn = self._turn, None
        if self._sessions is not None and turn is not None:
            self._sessions.end_turn(turn, history)

    def _finish(self) -> None:
        self._done = True
        self._rows.leave(id(self))

    def _failure(self) -> Failed:
        if self._rows.closed:
            return Failed("the server is shutting down", shutting_down=True)
        return Failed("the generation failed")

    def _history(self, length: int) -> tuple[int, ...]:
        return (*self._prompt, *map(token_id, tokens_of(self._played.said)))[:length]

    def _usage(self) -> Usage:
        counted = self._played.counts[-1] if self._played.counts else 0
        sampled = counted + (1 if self._played.reason == "stop" else 0)
        return Usage(
            prompt_tokens=len(self._prompt),
            completion_tokens=sampled,
            cached_tokens=0 if self._turn is None else self._turn.cached_tokens,
            # The last token is sampled and never fed.
            kv_used=len(self._prompt) + sampled - 1,
            kv_cap=self._model.context_window,
            session_conflict=self._script.session_conflict,
        )
