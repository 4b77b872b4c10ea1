"""What one step computes."""

from __future__ import annotations

from dataclasses import dataclass

from pantheon.engine.scheduler.sequence import Sequence


@dataclass(frozen=True, slots=True)
class PrefillChunk:
    """The next tokens of one prompt.

    Row and pages stand here as well as in the sequence: a sequence that is cancelled between
    planning and running gives them back, yet the step still needs them.

    Attributes:
        start: position of the first of them.
        first: True when no chunk of the prompt was planned before.
        last: True when the prompt ends with this chunk, so that its sampled token counts.
    """

    sequence: Sequence
    row: int
    pages: tuple[int, ...]
    start: int
    tokens: tuple[int, ...]
    first: bool
    last: bool


@dataclass(frozen=True, slots=True)
class DecodeRow:
    """One sequence whose newest token, at `position`, is fed."""

    sequence: Sequence
    row: int
    pages: tuple[int, ...]
    position: int


@dataclass(frozen=True, slots=True)
class StepPlan:
    """A chunk of prefill, a batch of decode rows, or both; never neither."""

    prefill: PrefillChunk | None
    decode: tuple[DecodeRow, ...]
