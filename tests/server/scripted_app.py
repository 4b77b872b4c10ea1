"""`application` for gunicorn over a ScriptedEngine; the same HTTP as `pantheon.app`.

What a generation does is said by its last message; anything unknown is echoed.

| message | what comes |
|---|---|
| `words 5`, `pairs 4` | so many words, one or two for each event |
| `think 3 2` | three words of reasoning, then two of the answer |
| `open 2`, `loop 2` | two words, the format left open; two words that end as a loop |
| `slow 100` | one word every 0.1 s, as many as max_tokens allows |
| `pause 500` | one word after 0.5 s |
| `asked` | what the engine was asked, as JSON |
| `fail 2` | fails after two words |
| `fail seed 8`, `busy seed 8` | three words, but a choice with that seed fails, is refused |
| `refuse busy` and its like | the engine refuses |
| `overflow` | exceeds the window |
| `defect` | an exception that no one expects |
| `conflict 2` | two words, and a usage that tells of a session conflict |

Besides: a session `defect` cannot be exported or restored for a reason that no one expects; a model
loaded as `gone` is gone again before its row can be read; one of the name `stuck` cannot be
unloaded.

| environment variable | what it says |
|---|---|
| `SCRIPTED_MODELS`, `SCRIPTED_ROWS` | names of the models, rows of each |
| `SCRIPTED_SESSIONS` | sessions of each; as many as rows, if not given |
| `SCRIPTED_WITHOUT_SNAPSHOTS` | models without a snapshot format |
| `SCRIPTED_WITHOUT_SESSIONS` | models without a session cache |
| `SCRIPTED_WATCH_MS` | milliseconds after which the engine ends a watch; 0, as by default: never |
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Sequence
from typing import Any

from pantheon.app import Application
from pantheon.engine import (
    CompletionRequest,
    ContextOverBudget,
    EngineError,
    InvalidRequest,
    ModelOptions,
    ModelStatus,
    NoModelsLoaded,
    ServerBusy,
    ServerMemoryConstrained,
    ServerShuttingDown,
    SessionSnapshot,
    UnloadFailed,
    UnloadFailure,
)
from pantheon.engine.testing import Script, ScriptedEngine, echo, scripted_model
from pantheon.settings import Settings

REFUSALS: dict[str, Callable[[], EngineError]] = {
    "template": lambda: InvalidRequest("the template refuses this conversation"),
    "unloaded": lambda: NoModelsLoaded("no model is loaded"),
    "busy": lambda: ServerBusy("every row is taken", retry_after=7),
    "memory": lambda: ServerMemoryConstrained("memory is short"),
    "shutdown": lambda: ServerShuttingDown("the server is shutting down"),
}


def script(request: CompletionRequest) -> Script:
    """The script that the last message names."""
    match str(request.messages[-1]["content"]).split():
        case ["words", count]:
            return Script(tokens=words(int(count)))
        case ["pairs", count]:
            return Script(tokens=words(int(count)), tokens_per_event=2)
        case ["think", reasoning, count]:
            thought = tuple(f"{' ' if index else ''}t{index}" for index in range(int(reasoning)))
            return Script(tokens=words(int(count)), reasoning=thought)
        case ["open", count]:
            return Script(tokens=words(int(count)), format_closed=False)
        case ["loop", count]:
            return Script(tokens=words(int(count)), ends_as="repetition_loop")
        case ["asked"]:
            return Script(tokens=(json.dumps(dataclasses.asdict(request)),))
        case ["fail", "seed", seed]:
            fails = request.sampling.seed == int(seed)
            return Script(tokens=words(3), fails_after=1 if fails else None)
        case ["busy", "seed", seed]:
            refusal = REFUSALS["busy"]() if request.sampling.seed == int(seed) else None
            return Script(tokens=words(3), refusal=refusal)
        case ["pause", milliseconds]:
            return Script(tokens=words(1), token_seconds=int(milliseconds) / 1000)
        case ["slow", milliseconds]:
            return Script(tokens=words(request.max_tokens), token_seconds=int(milliseconds) / 1000)
        case ["conflict", count]:
            return Script(tokens=words(int(count)), session_conflict=True)
        case ["fail", count]:
            return Script(tokens=words(int(count) + 5), fails_after=int(count))
        case ["refuse", name] if name in REFUSALS:
            return Script(refusal=REFUSALS[name]())
        case ["overflow"]:
            return Script(refusal=ContextOverBudget(5000, 4096))
        case ["defect"]:
            raise RuntimeError("a defect with a secret in it")
    return echo(request)


def words(count: int) -> tuple[str, ...]:
    """`w0 w1 w2 ...`."""
    return tuple(f"{' ' if index else ''}w{index}" for index in range(count))


class AppEngine(ScriptedEngine):
    """A scripted engine with the names that mean something here."""

    def load(self, options: ModelOptions) -> ModelStatus | None:
        status = super().load(options)
        if status is not None and status.id == "gone":
            super().unload(status.id)
            return None
        return status

    def unload(self, name: str) -> None:
        if name == "stuck":
            raise UnloadFailed(UnloadFailure.OTHER, "the model cannot be unloaded")
        super().unload(name)

    def export_session(self, model: str | None, session_id: str) -> SessionSnapshot:
        _check_session(session_id)
        return super().export_session(model, session_id)

    def restore_session(
        self, model: str | None, session_id: str, blob: bytes, tokens: Sequence[int]
    ) -> int:
        _check_session(session_id)
        return super().restore_session(model, session_id, blob, tokens)


def _check_session(session_id: str) -> None:
    if session_id == "defect":
        raise RuntimeError("a defect with a secret in it")


def _names(variable: str, default: str = "") -> list[str]:
    return [name for name in os.environ.get(variable, default).split(",") if name]


def __getattr__(name: str) -> Any:
    if name != "application":
        raise AttributeError(name)
    rows = int(os.environ.get("SCRIPTED_ROWS", "4"))
    sessions = int(os.environ.get("SCRIPTED_SESSIONS", rows))
    names = _names("SCRIPTED_MODELS", "scripted")
    models = [
        dataclasses.replace(scripted_model(name, rows=rows), max_sessions=sessions)
        for name in names
    ]
    watch_ms = int(os.environ.get("SCRIPTED_WATCH_MS", "0"))
    settings = Settings.from_environment()
    engine = AppEngine(
        models,
        script,
        queue_depth=settings.queue_depth,
        queue_wait_s=settings.queue_wait_ms / 1000,
        max_models=settings.max_models,
        max_watches=settings.max_watches,
        watch_s=watch_ms / 1000 or None,
        watch_grace_s=settings.watch_grace_ms / 1000,
        unload_drain_s=settings.unload_drain_ms / 1000,
        without_sessions=_names("SCRIPTED_WITHOUT_SESSIONS") if settings.session_cache else names,
        without_snapshots=_names("SCRIPTED_WITHOUT_SNAPSHOTS"),
    )
    return Application(engine, settings)
