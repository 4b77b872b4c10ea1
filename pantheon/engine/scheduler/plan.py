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
        start: position of the first of them. A chunk never crosses a multiple of the scheduler's
            chunk size.
        first: True when no chunk of the prompt was planned before.
        last: True when the prompt ends with this chunk, so that its sampled token counts.
        copy_page: (source, target) pages to copy before it runs; None for no copy.
        load_state: slot of the recurrent state to start from, at the first chunk; None starts
            from nothing.
        save_state: slot that takes the recurrent state after the chunk; None keeps none.
    """

    sequence: Sequence
    row: int
    pages: tuple[int, ...]
    start: int
    tokens: tuple[int, ...]
    first: bool
    last: bool
    copy_page: tuple[int, int] | None = None
    load_state: int | None = None
    save_state: int | None = None


@dataclass(frozen=True, slots=True)
class DecodeRow:
    """One sequence whose newest token, at `position`, is fed.

    Attributes:
        drafts: what may follow that token, to be fed at the positions after it.
    """

    sequence: Sequence
    row: int
    pages: tuple[int, ...]
    position: int
    drafts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class StateSave:
    """The recurrent state of a row whose turn has ended, to be kept in a slot."""

    row: int
    slot: int


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What to do next, in this order: saves, decode rows, a chunk of prefill. Never nothing."""

    prefill: PrefillChunk | None
    decode: tuple[DecodeRow, ...]
    saves: tuple[StateSave, ...] = ()
