"""How many rows, pages and tokens a model gets. Plain arithmetic."""

from __future__ import annotations

from typing import Final

from pantheon.engine.runner import DECODE_BATCHES, Capacity

PAGE_SIZE: Final = 64
"""Tokens of a KV page."""

DEFAULT_SESSIONS: Final = 8
"""`max_sessions` when none is asked for."""


class NotEnoughMemory(Exception):
    """The memory allowed does not hold even one page."""


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
    pages_of_window = min(-(-window // PAGE_SIZE), affordable)
    rows = min(rows, DECODE_BATCHES[-1], affordable // pages_of_window)
    # Beyond what the rows need, a window for each session that may keep its KV.
    pages = min(max(rows, sessions) * pages_of_window, affordable)
    return Capacity(
        rows=rows,
        pages=max(pages, rows * pages_of_window),
        page_size=PAGE_SIZE,
        window=min(window, pages_of_window * PAGE_SIZE),
    )
