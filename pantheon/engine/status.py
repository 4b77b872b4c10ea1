"""The numbers that the engine states about itself. Each is read when asked for, never guessed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pantheon.engine.residency import AttentionStatus, GraphStatus

UNMEASURED_PREFILL_RATE: Final = 17.0
"""Tokens per second where no rate is measured yet (reference, `GET /session/estimate`)."""


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """One live instance of a model (reference, `GET /admin/models`).

    Attributes:
        vram_bytes: bytes really held for weights and KV on the devices it runs on.
        max_concurrent: requests decoded at once right now; `_configured` is what was asked for.
        context_window: effective window in tokens right now; `_configured` is what was asked for.
        attention: None until a forward pass has reached an attention layer.
        graphs: None for a model without graph slots: one on the host.
        serves: False once it can take nothing any more; it decodes and holds nothing then.
    """

    id: str
    path: str
    dies: tuple[int, ...]
    vram_bytes: int
    max_sessions: int
    max_concurrent: int
    max_concurrent_configured: int
    context_window: int
    context_window_configured: int
    tool_choice_required_with_thinking: bool
    attention: AttentionStatus | None
    graphs: GraphStatus | None = None
    serves: bool = True


@dataclass(frozen=True, slots=True)
class DieStatus:
    """One die of the die manager (reference, `GET /admin/dies`). Sizes in bytes."""

    die: int
    card: int
    model: str
    n_models: int
    vram_budget: int
    vram_used: int


@dataclass(frozen=True, slots=True)
class PlatformStatus:
    """What this process is and runs on (reference, `GET /`).

    Attributes:
        backend: the backend constant baked at install time.
        build: the commit, `-dirty` suffixed when the tree was not clean, or `unknown`.
        accelerator: False when every forward pass runs on the host CPU.
        dies_visible: dies the die manager holds.
    """

    backend: str
    build: str
    accelerator: bool
    dies_visible: int


@dataclass(frozen=True, slots=True)
class PrefillRate:
    """How fast a model prefills (reference, `GET /session/estimate`).

    Attributes:
        model: its served name; empty for an unknown one.
        tokens_per_s: measured, `UNMEASURED_PREFILL_RATE` before anything was.
    """

    model: str
    tokens_per_s: float = UNMEASURED_PREFILL_RATE
