"""What to compute next, decided over integers. Knows no device and no clock of its own."""

from pantheon.engine.scheduler.plan import (
    DecodeRow,
    PrefillChunk,
    RowStart,
    StateSave,
    StepPlan,
)
from pantheon.engine.scheduler.scheduler import QueueFull, Scheduler
from pantheon.engine.scheduler.sequence import Sequence

__all__ = [
    "DecodeRow",
    "PrefillChunk",
    "QueueFull",
    "RowStart",
    "Scheduler",
    "Sequence",
    "StateSave",
    "StepPlan",
]
