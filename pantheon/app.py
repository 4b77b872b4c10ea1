"""`application` for `gunicorn pantheon.app`: settings, engine, handlers and routes in one object.

The engine is built when `application` is first asked for, which gunicorn does in its worker.
Importing this module builds nothing.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from typing import Any

from gunicorn.errors import AppImportError

from pantheon.engine import Engine, EngineError
from pantheon.handlers.chat import ChatOptions
from pantheon.handlers.operations import EngineOperations
from pantheon.http.application import wsgi_application
from pantheon.http.envelope import Environ, StartResponse
from pantheon.http.limits import ConnectionLimits
from pantheon.http.worker import IN_WORKER
from pantheon.settings import Settings, SettingsError


class CannotStart(AppImportError, RuntimeError):  # type: ignore[misc]  # gunicorn has no types
    """The server cannot start. gunicorn prints its one line and exits, in a worker because of
    the one base class and before the fork because of the other; no next worker is tried.
    """


class Application:
    """The WSGI application over one engine, which it closes at its end."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        chat = ChatOptions(
            content_parts=settings.content_parts,
            enforce_schema=settings.json_schema,
            keepalive_s=settings.sse_keepalive_ms / 1000,
        )
        self._wsgi = wsgi_application(EngineOperations(engine, chat), settings.max_body_bytes)
        self.limits = ConnectionLimits(
            head_timeout=settings.head_timeout_ms / 1000,
            body_timeout=settings.body_timeout_ms / 1000,
            send_timeout=settings.send_timeout_ms / 1000,
            drain_timeout=settings.drain_ms / 1000,
        )

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        return self._wsgi(environ, start_response)

    def ready(self, url: str) -> None:
        """Tell the person at the terminal where the server is and how to talk to it."""
        platform = self._engine.platform()
        print(f"Pantheon {platform.build} ({platform.backend}) is ready on {url}", flush=True)
        served = self._engine.models()
        for model in served:
            print(
                f"  model {model.id}: window {model.context_window} tokens, "
                f"{model.max_concurrent} at once, {model.max_sessions} sessions",
                flush=True,
            )
        if served:
            body = {"model": served[0].id, "messages": [{"role": "user", "content": "Say hello."}]}
            data = shlex.quote(json.dumps(body))
            print(f"\n  curl {url}/v1/chat/completions -d {data}\n", flush=True)
        else:
            print("  no model is loaded: set PANTHEON_MODELS='path=MODEL.gguf'", flush=True)

    def drain(self) -> None:
        """Refuse what is new and what waits; what runs goes on."""
        self._engine.drain()

    @property
    def idle(self) -> bool:
        """Whether no generation runs or waits."""
        return self._engine.idle

    def close(self) -> None:
        """End every generation and free the models. Idempotent."""
        self._engine.close()


def start(settings: Settings) -> Application:
    """Build the engine and what serves it, in a worker process.

    Raises:
        CannotStart: the process is no Pantheon worker, or a model cannot be loaded.
    """
    if not IN_WORKER.get():
        raise CannotStart(
            "pantheon: the engine must be built in one worker of class pantheon.http.worker.Worker "
            "and without --preload: start it by `pantheon serve`, or by `gunicorn pantheon.app` "
            "with the gunicorn.conf.py of the project"
        )
    config = settings.engine_config()
    if config.hosts is not None and config.hosts.process:
        raise CannotStart(
            f"pantheon: process {config.hosts.process} of a server over several hosts follows and "
            "serves nothing: start it by `pantheon serve`"
        )
    # Imported here because they bring in JAX, which must not be alive before a fork.
    from pantheon.engine.accelerator import keep_host, look_for_devices
    from pantheon.engine.programs import open_programs

    try:
        group, only_others = None, keep_host()
        if config.hosts is not None:
            from pantheon.engine.hosts import lead_hosts

            # Before anything asks for devices: those of other hosts would not be among them.
            group = lead_hosts(config.hosts, config.build)
        look_for_devices(config.backend, only_others=only_others)
        programs = open_programs(config)
        from pantheon.engine.registry import build_engine

        return Application(build_engine(config, programs, group), settings)
    except EngineError as error:
        raise CannotStart(f"pantheon: {error}") from error


def follow(settings: Settings) -> str:
    """Follow the first process of a server over several hosts; why that ended, in words.

    Raises:
        CannotStart: the processes do not meet.
    """
    config = settings.engine_config()
    assert config.hosts is not None, "a process that follows has a number among several"
    # Imported here because they bring in JAX.
    from pantheon.engine.accelerator import keep_host
    from pantheon.engine.hosts import follow as follow_steps
    from pantheon.engine.hosts import follow_hosts

    keep_host()
    try:
        return follow_steps(follow_hosts(config.hosts, config.build))
    except EngineError as error:
        raise CannotStart(f"pantheon: {error}") from error


def __getattr__(name: str) -> Any:
    if name != "application":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return start(Settings.from_environment())
    except SettingsError as error:
        raise CannotStart(f"pantheon: {error}") from error
