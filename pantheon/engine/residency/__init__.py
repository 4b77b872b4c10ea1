"""Whether the fast paths of a model really run (reference, `graphs` and `attention`).

Plain Python. Nothing here is guessed: what cannot be read is pending.
"""

from pantheon.engine.residency.attention_layers import (
    AttentionLayers,
    AttentionStatus,
    HostReason,
    PagesNotAllocated,
)
from pantheon.engine.residency.backoff import ATTEMPTS, Backoff
from pantheon.engine.residency.captured_step import CapturedStep, CaptureFailed, Executable
from pantheon.engine.residency.graph_slots import (
    GraphCounts,
    GraphSlots,
    GraphStatus,
    LayerKind,
    SlotClass,
)
from pantheon.engine.residency.thunks import CapturedLayers, captured_layers

__all__ = [
    "ATTEMPTS",
    "AttentionLayers",
    "AttentionStatus",
    "Backoff",
    "CaptureFailed",
    "CapturedLayers",
    "CapturedStep",
    "Executable",
    "GraphCounts",
    "GraphSlots",
    "GraphStatus",
    "HostReason",
    "LayerKind",
    "PagesNotAllocated",
    "SlotClass",
    "captured_layers",
]
