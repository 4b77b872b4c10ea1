"""What the engine is built from: every option in one frozen object, already checked.

`pantheon.settings` makes it from flags and environment variables; nothing in the engine reads
the environment itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from pantheon.engine.precision import Precision


class ToolGrammar(Enum):
    """Which requests with tools are constrained (reference, the table of PANTHEON_TOOL_GRAMMAR)."""

    REQUIRED = "required"
    """Those that must call any tool."""
    ALWAYS = "always"
    """All: those that must call, those that name a tool, and calls that a free answer begins."""
    NEVER = "never"


class Speculation(Enum):
    """Which models decode with drafts from their own conversation."""

    WHERE_IT_PAYS = "where it pays"
    """Where drafts bring more tokens in a second than they cost."""
    ALWAYS = "always"
    """In every entry that is free, of every model that can."""
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """One model to load (reference, `POST /admin/models/load`, request body).

    Attributes:
        path: the GGUF file.
        name: served id; None serves it under the file's name.
        ctx_cap: context cap of a session in tokens; 0 is the engine's default.
        max_sessions: named sessions that may hold KV at once; 0 is the engine's default.
        max_concurrent: requests decoded at once; 0 is the resolved `max_sessions`.
        reasoning_budget: reasoning tokens before `</think>` is forced; 0 is unbounded.
        dies: device ordinals; None, or none of them, leaves the choice to the engine.
        quantize: INT8-quantise at load time.
    """

    path: Path
    name: str | None = None
    ctx_cap: int = 0
    max_sessions: int = 0
    max_concurrent: int = 0
    reasoning_budget: int = 0
    dies: tuple[int, ...] | None = None
    quantize: bool = False


@dataclass(frozen=True, slots=True)
class HostOptions:
    """One process among those of a server.

    Attributes:
        coordinator: host and port where the first process meets the others; the next port is for
            what it tells them.
        processes: how many there are, at least two.
        process: the number of this one; 0 serves.
    """

    coordinator: tuple[str, int]
    processes: int
    process: int


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Everything the engine needs to know at its start.

    Attributes:
        models: the models to load, in order.
        backend: the backend constant baked at install time, `cuda` or `cpu`.
        build: the commit that this was built from, `-dirty` suffixed, or `unknown`.
        queue_depth: requests that may wait per model before `ServerBusy` (BS_QUEUE_DEPTH).
        queue_wait_s: seconds that a request may wait before `ServerBusy`.
        batch_slots: False is the single-user path: one generation per model, no queue
            (QWEN35_BATCH_SLOTS=0).
        native: whether matrices are multiplied by the native kernels, where those are built
            (PANTHEON_NATIVE); without them it is in float32, and takes longer.
        precision: in which numbers the native kernels multiply, and keys and values are kept
            (PANTHEON_PRECISION).
        compile_cache_dir: where compiled programs are kept between starts; None keeps none.
        xla_flags: XLA_FLAGS of the environment. XLA reads it by itself; programs that are kept
            depend on it.
        kv_memory_share: share of the memory free after the weights are loaded, in (0, 1], that
            the KV pool may take.
        stop_repetition: end an answer that loops with `repetition_loop`.
        thinking_default: whether a think-style template opens its block when the request does
            not say (`enable_thinking` absent); PANTHEON_NO_THINK=1 makes it False.
        tool_grammar: which answers are held to the grammar of a tool call (PANTHEON_TOOL_GRAMMAR).
        speculation: which models decode with drafts (PANTHEON_SPECULATION).
        max_models: models that may be loaded at once.
        max_watches: watches that may be held at once, over all models.
        watch_grace_s: seconds from the end of a session's last watch to its release.
        session_idle_ttl_s: seconds after which an idle session is released.
        session_cache: False keeps no session's KV (PANTHEON_SESSION_CACHE=0).
        unload_drain_s: most seconds that an unload waits for running generations.
        pressure_file: file that stands in for measured memory pressure; None measures only.
        die_reserve_bytes: of each die's memory what models may not take (PN_DIE_RESERVE_BYTES).
        hosts: this process among those of its server; None where it is alone.
        model_root: folder below which a model loaded at run time must lie; None allows any path.
    """

    models: tuple[ModelOptions, ...]
    backend: str
    build: str
    queue_depth: int = 32
    queue_wait_s: float = 30.0
    batch_slots: bool = True
    native: bool = True
    precision: Precision = Precision.DEFAULT
    compile_cache_dir: Path | None = None
    xla_flags: str = ""
    kv_memory_share: float = 0.5
    stop_repetition: bool = True
    thinking_default: bool = True
    tool_grammar: ToolGrammar = ToolGrammar.REQUIRED
    speculation: Speculation = Speculation.WHERE_IT_PAYS
    max_models: int = 4
    max_watches: int = 64
    watch_grace_s: float = 45.0
    session_idle_ttl_s: float = 43_200.0
    session_cache: bool = True
    unload_drain_s: float = 60.0
    pressure_file: Path | None = None
    die_reserve_bytes: int = 512 << 20
    hosts: HostOptions | None = None
    model_root: Path | None = None
