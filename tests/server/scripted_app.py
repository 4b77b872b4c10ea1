"""`application` for gunicorn over a ScriptedEngine; the same HTTP as `pantheon.app`.

What a generation does is said by its last message: `words 5` answers five words, `slow 100`
one word every 0.1 s (as many as max_tokens allows), `fail 2` fails after two words, `refuse busy`
and its like are refused by the engine, `overflow` exceeds the window; anything else is echoed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from pantheon.app import Application
from pantheon.engine import (
    CompletionRequest,
    ContextOverBudget,
    EngineError,
    InvalidRequest,
    NoModelsLoaded,
    ServerBusy,
    ServerMemoryConstrained,
    ServerShuttingDown,
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
        case ["slow", milliseconds]:
            return Script(tokens=words(request.max_tokens), token_seconds=int(milliseconds) / 1000)
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


def __getattr__(name: str) -> Any:
    if name != "application":
        raise AttributeError(name)
    rows = int(os.environ.get("SCRIPTED_ROWS", "4"))
    names = os.environ.get("SCRIPTED_MODELS", "scripted").split(",")
    settings = Settings.from_environment()
    engine = ScriptedEngine(
        [scripted_model(model, rows=rows) for model in names if model],
        script,
        queue_depth=settings.queue_depth,
        queue_wait_s=settings.queue_wait_ms / 1000,
    )
    return Application(engine, settings)
