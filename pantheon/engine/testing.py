"""An engine without a model: finite, deterministic, no device.

Tests of handlers and HTTP, and fuzzing, run against it. It keeps the contract of
`pantheon.engine.face` in everything that can be seen from outside, rows and queue included; only
the text comes from a script instead of a forward pass. A token is a word with the white space
before it.
"""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pantheon.engine.errors import (
    ContextOverBudget,
    EngineError,
    ModelNotFound,
    NoModelsLoaded,
    ServerBusy,
    ServerShuttingDown,
)
from pantheon.engine.events import Event, Failed, Finished, FinishReason, TextDelta, Usage
from pantheon.engine.requests import CompletionRequest
from pantheon.engine.status import DieStatus, ModelStatus, PlatformStatus

_TOKEN: Final = re.compile(r"\s*\S+|\s+\Z")
_ECHO_LIMIT: Final = 64


@dataclass(frozen=True, slots=True)
class Script:
    """What one generation does.

    Attributes:
        tokens: the answer, one event for each.
        token_seconds: time before each event.
        refusal: raised instead of accepting the request.
        fails_after: events after which the generation fails; None for never.
    """

    tokens: tuple[str, ...] = ()
    token_seconds: float = 0.0
    refusal: EngineError | None = None
    fails_after: int | None = None


def tokens_of(text: str) -> tuple[str, ...]:
    """The tokens of a text; joined they are the text."""
    return tuple(_TOKEN.findall(text))


def echo(request: CompletionRequest) -> Script:
    """Answer with the last message, at most 64 tokens of it."""
    return Script(tokens=tokens_of(str(request.messages[-1]["content"]))[:_ECHO_LIMIT])


def scripted_model(
    name: str = "scripted", *, rows: int = 2, context_window: int = 4096
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


class ScriptedEngine:
    """Implements `pantheon.engine.face.Engine` over scripts.

    Attributes:
        accepted: every request that was accepted, in order.
        cancelled: how many generations were cancelled before their end.
    """

    def __init__(
        self,
        models: Sequence[ModelStatus] | None = None,
        script: Callable[[CompletionRequest], Script] = echo,
        *,
        queue_depth: int = 32,
        queue_wait_s: float = 30.0,
        dies: Sequence[DieStatus] = (),
        platform: PlatformStatus | None = None,
    ) -> None:
        """Serve `models` (one named `scripted` by default), each with its own rows and queue."""
        self._models = (scripted_model(),) if models is None else tuple(models)
        self._script = script
        self._dies = tuple(dies)
        self._platform = platform or PlatformStatus("cpu", "unknown", False, len(self._dies))
        self._rows = {
            model.id: _Rows(model.max_concurrent, queue_depth, queue_wait_s)
            for model in self._models
        }
        self._lock = threading.Lock()
        self._closed = False
        self.accepted: list[CompletionRequest] = []
        self.cancelled = 0

    @property
    def rows_in_use(self) -> int:
        """Rows that generations hold right now, over all models."""
        return sum(rows.in_use for rows in self._rows.values())

    def platform(self) -> PlatformStatus:
        """See `Engine.platform`."""
        return self._platform

    def models(self) -> Sequence[ModelStatus]:
        """See `Engine.models`."""
        return self._models

    def dies(self) -> Sequence[DieStatus]:
        """See `Engine.dies`."""
        return self._dies

    def submit(self, request: CompletionRequest) -> ScriptedCompletion:
        """See `Engine.submit`."""
        if self._closed:
            raise ServerShuttingDown("the server is shutting down")
        model = self._route(request.model)
        script = self._script(request)
        if script.refusal is not None:
            raise script.refusal
        prompt_tokens = sum(len(tokens_of(str(m["content"]))) + 1 for m in request.messages)
        if prompt_tokens > model.context_window:
            raise ContextOverBudget(prompt_tokens, model.context_window)
        rows = self._rows[model.id]
        completion = ScriptedCompletion(
            model, request, script, prompt_tokens, rows, self._count_cancel
        )
        rows.enter(completion)
        with self._lock:
            self.accepted.append(request)
        return completion

    def close(self) -> None:
        """See `Engine.close`."""
        self._closed = True
        for rows in self._rows.values():
            rows.close()

    def _count_cancel(self) -> None:
        with self._lock:
            self.cancelled += 1

    def _route(self, name: str | None) -> ModelStatus:
        if not self._models:
            raise NoModelsLoaded("no model is loaded")
        if len(self._models) == 1:
            return self._models[0]
        for model in self._models:
            if model.id == name:
                return model
        raise ModelNotFound(f"expected one of the loaded models, got {name!r:.100}")


class ScriptedCompletion:
    """Implements `pantheon.engine.face.Completion`: its events are made as they are asked for."""

    def __init__(
        self,
        model: ModelStatus,
        request: CompletionRequest,
        script: Script,
        prompt_tokens: int,
        rows: _Rows,
        on_cancel: Callable[[], None],
    ) -> None:
        self._model = model
        self._script = script
        self._prompt_tokens = prompt_tokens
        self._rows = rows
        self._on_cancel = on_cancel
        room = min(request.max_tokens, model.context_window - prompt_tokens + 1)
        self._tokens, self._reason = _cut(script.tokens, room, request.stop)
        self._sent = 0
        self._done = False
        self._next_at = 0.0

    @property
    def model_id(self) -> str:
        """See `Completion.model_id`."""
        return self._model.id

    def wait_admitted(self, timeout: float) -> bool:
        """See `Completion.wait_admitted`."""
        admitted = self._rows.wait(self, timeout)
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
        if self._sent < len(self._tokens):
            self._sent += 1
            return TextDelta(self._tokens[self._sent - 1])
        self._finish()
        return Finished(self._reason, self._usage())

    def cancel(self) -> None:
        """See `Completion.cancel`."""
        if not self._done:
            self._finish()
            self._on_cancel()

    def _finish(self) -> None:
        self._done = True
        self._rows.leave(self)

    def _usage(self) -> Usage:
        ended = 1 if self._reason == "stop" else 0
        return Usage(
            prompt_tokens=self._prompt_tokens,
            completion_tokens=self._sent + ended,
            cached_tokens=0,
            # The last token is sampled and never fed.
            kv_used=self._prompt_tokens + self._sent + ended - 1,
            kv_cap=self._model.context_window,
        )


class _Rows:
    """The decode rows of one model and the queue before them, first come first served."""

    def __init__(self, rows: int, queue_depth: int, queue_wait_s: float) -> None:
        self._rows = rows
        self._queue_depth = queue_depth
        self._queue_wait_s = queue_wait_s
        self._changed = threading.Condition()
        self._holders: set[int] = set()
        self._queue: deque[tuple[int, float]] = deque()
        self.closed = False

    @property
    def in_use(self) -> int:
        return len(self._holders)

    def enter(self, completion: ScriptedCompletion) -> None:
        with self._changed:
            if len(self._holders) < self._rows and not self._queue:
                self._holders.add(id(completion))
            elif len(self._queue) < self._queue_depth:
                self._queue.append((id(completion), time.monotonic() + self._queue_wait_s))
            else:
                raise ServerBusy("every row is taken and the queue is full", retry_after=1)

    def wait(self, completion: ScriptedCompletion, timeout: float) -> bool:
        key = id(completion)
        with self._changed:
            self._changed.wait_for(lambda: key in self._holders or self.closed, timeout)
            if key in self._holders:
                return True
            if self.closed:
                raise ServerShuttingDown("the server is shutting down")
            if any(waiting == key and due <= time.monotonic() for waiting, due in self._queue):
                self._remove(key)
                raise ServerBusy("the wait in the queue ran out", retry_after=1)
            return False

    def leave(self, completion: ScriptedCompletion) -> None:
        with self._changed:
            self._remove(id(completion))

    def close(self) -> None:
        with self._changed:
            self.closed = True
            self._changed.notify_all()

    def _remove(self, key: int) -> None:
        self._holders.discard(key)
        self._queue = deque(waiting for waiting in self._queue if waiting[0] != key)
        while self._queue and len(self._holders) < self._rows and not self.closed:
            self._holders.add(self._queue.popleft()[0])
        self._changed.notify_all()


def _cut(
    tokens: tuple[str, ...], limit: int, stop: tuple[str, ...]
) -> tuple[tuple[str, ...], FinishReason]:
    """The tokens up to the first stop string or the limit, and why they end there."""
    text = "".join(tokens[:limit])
    found = [at for at in (text.find(string) for string in stop) if at >= 0]
    if found:
        return tokens_of(text[: min(found)]), "stop"
    return tokens[:limit], "length" if len(tokens) > limit else "stop"
