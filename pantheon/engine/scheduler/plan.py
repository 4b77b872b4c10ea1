"""What one step computes."""

from __future__ import annotations

from dataclasses import dataclass

from pantheon.engine.scheduler.sequence import Sequence


@dataclass(frozen=True, slots=True)
class RowStart:
    """What is done before the first step of a sequence.

    Row and pages stand here, and in what follows, as well as in the sequence: a sequence that is
    cancelled between planning and running gives them back, yet the step still needs them.

    Attributes:
        copy_page: (source, target) pages to copy; None for no copy.
        load_state: slot of the recurrent state to start from; None starts from nothing.
    """

    sequence: Sequence
    row: int
    copy_page: tuple[int, int] | None = None
    load_state: int | None = None


@dataclass(frozen=True, slots=True)
class PrefillChunk:
    """The next tokens of one prompt, but never its last: that one is fed by a decode step.

    Attributes:
        start: position of the first of them. A chunk never crosses a multiple of the scheduler's
            chunk size.
        save_state: slot that takes the recurrent state after the chunk; None keeps none.
    """

    sequence: Sequence
    row: int
    pages: tuple[int, ...]
    start: int
    tokens: tuple[int, ...]
    save_state: int | None = None


@dataclass(frozen=True, slots=True)
class DecodeRow:
    """One sequence whose newest token, at `position`, is fed.

    Attributes:
        drafts: what may follow that token, to be fed at the positions after it.
        fed: that token, where it is the last of the prompt; None where the row sampled it.
    """

    sequence: Sequence
    row: int
    pages: tuple[int, ...]
    position: int
    drafts: tuple[int, ...] = ()
    fed: int | None = None


@dataclass(frozen=True, slots=True)
class StateSave:
    """The recurrent state of a row whose turn has ended, to be kept in a slot."""

    row: int
    slot: int


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What to do next, in this order: saves, starts, decode rows, a chunk of prefill.

    Never nothing.
    """

    prefill: PrefillChunk | None
    decode: tuple[DecodeRow, ...]
    saves: tuple[StateSave, ...] = ()
    starts: tuple[RowStart, ...] = ()
