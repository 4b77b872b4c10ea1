"""How many rows, pages and tokens a model gets. Plain arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pantheon.engine.runner import DECODE_BATCHES, Capacity

PAGE_SIZE: Final = 64
"""Tokens of a KV page."""

DEFAULT_SESSIONS: Final = 8
"""`max_sessions` when none is asked for."""


CHECKPOINTS_OF_SESSION: Final = 8
"""States that are kept for each session: two near the end of each prompt and one at the end of
each turn, and some further back."""

FEWEST_CHECKPOINTS: Final = 3
"""What one conversation cannot do without: two near its prompt's end, one at the turn's end."""


class NotEnoughMemory(Exception):
    """The memory allowed does not hold even one page, or the states of one row."""


@dataclass(frozen=True, slots=True)
class StatePlan:
    """Room for recurrent states.

    Attributes:
        rows: sequences decoded at once, each with a state.
        checkpoints: states kept beside those.
        bytes: what all of them take, and the one of padding.
    """

    rows: int
    checkpoints: int
    bytes: int


def plan_states(*, rows: int, sessions: int, state_bytes: int, memory: int) -> StatePlan:
    """Share the memory between the states of recurrent layers and the KV pool.

    States get half of it at the most. Where that is short there are fewer checkpoints first, and
    then fewer rows.

    Args:
        rows: requests to decode at once.
        sessions: sessions that may be kept between their turns; 0 keeps no checkpoint.
        state_bytes: bytes of one sequence's state in all layers; 0 without recurrent layers.
        memory: bytes that states and KV pool may take together.

    Raises:
        NotEnoughMemory: it does not hold the states of one row.
    """
    rows = min(rows, DECODE_BATCHES[-1])
    if not state_bytes:
        return StatePlan(rows, 0, 0)
    fewest = FEWEST_CHECKPOINTS if sessions else 0
    affordable = memory // 2 // state_bytes - 1
    if affordable < 1 + fewest:
        raise NotEnoughMemory(
            f"the recurrent layers need at least {(2 + fewest) * state_bytes} bytes of states, "
            f"but only {memory // 2} may be used"
        )
    rows = min(rows, affordable - fewest)
    checkpoints = _as_many(sessions * CHECKPOINTS_OF_SESSION, affordable - rows)
    return StatePlan(rows, checkpoints, (rows + 1 + checkpoints) * state_bytes)


def plan_capacity(
    *,
    context_length: int,
    ctx_cap: int,
    rows: int,
    sessions: int,
    bytes_per_token: int,
    memory: int,
) -> Capacity:
    """Size the KV pool and the window.

    Where memory is the limit, the pool is a little smaller than it, by a sixteenth at the most, and
    has one of few sizes: a compiled step is one of a size, and free memory never the same twice.

    Every row that is claimed can hold a whole window at the same time as the others: what is
    advertised as decoded at once must be (reference, `max_concurrent`). Where the memory does
    not hold a window for each row asked for, there are fewer rows; where it does not hold even
    one window, the window shrinks.

    Args:
        context_length: the model's own, in tokens.
        ctx_cap: the operator's cap, 0 for none.
        rows: requests to decode at once; more than a step can take are not served.
        sessions: sessions that may hold KV between their turns.
        bytes_per_token: bytes of keys and values of one token in all layers.
        memory: bytes that the pool may take.

    Raises:
        NotEnoughMemory: see there.
    """
    window = min(context_length, ctx_cap) if ctx_cap else context_length
    affordable = memory // (bytes_per_token * PAGE_SIZE)
    if affordable < 1:
        raise NotEnoughMemory(
            f"the KV cache needs at least {PAGE_SIZE * bytes_per_token} bytes for one page, "
            f"but only {memory} may be used"
        )
    pages_of_window = _as_many(-(-window // PAGE_SIZE), affordable)
    rows = min(rows, DECODE_BATCHES[-1], affordable // pages_of_window)
    # Beyond what the rows need, a window for each session that may keep its KV.
    pages = _as_many(max(rows, sessions) * pages_of_window, affordable)
    return Capacity(
        rows=rows,
        pages=max(pages, rows * pages_of_window),
        page_size=PAGE_SIZE,
        window=min(window, pages_of_window * PAGE_SIZE),
    )


def _as_many(wanted: int, affordable: int) -> int:
    """What is wanted where it can be had, else what can, rounded down to five binary digits."""
    if wanted <= affordable:
        return wanted
    return affordable - affordable % max(1 << affordable.bit_length() >> 5, 1)
