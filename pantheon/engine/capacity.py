"""How many rows, pages and tokens a model gets. Plain arithmetic."""

from __future__ import annotations

from typing import Final

from pantheon.engine.runner import DECODE_BATCHES, Capacity

PAGE_SIZE: Final = 64
"""Tokens of a KV page."""

DEFAULT_SESSIONS: Final = 8
"""`max_sessions` when none is asked for."""


class NotEnoughMemory(Exception):
    """The memory allowed does not hold even one page for each row."""


def plan_capacity(
    *,
    context_length: int,
    ctx_cap: int,
    rows: int,
    bytes_per_token: int,
    memory: int,
) -> Capacity:
    """Size the KV pool and the window.

    The pool is one for all rows. It holds every row's whole window where the memory allows;
    where it does not, the rows share what there is, and the window shrinks only when the whole
    pool is smaller than one.

    Args:
        context_length: the model's own, in tokens.
        ctx_cap: the operator's cap, 0 for none.
        rows: requests to decode at once; more than a step can take are not served.
        bytes_per_token: bytes of keys and values of one token in all layers.
        memory: bytes that the pool may take.

    Raises:
        NotEnoughMemory: see there.
    """
    window = min(context_length, ctx_cap) if ctx_cap else context_length
    rows = min(rows, DECODE_BATCHES[-1])
    wanted = rows * -(-window // PAGE_SIZE)
    pages = min(wanted, memory // (bytes_per_token * PAGE_SIZE))
    if pages < rows:
        raise NotEnoughMemory(
            f"the KV cache needs at least {rows * PAGE_SIZE * bytes_per_token} bytes for "
            f"{rows} rows, but only {memory} may be used"
        )
    return Capacity(
        rows=rows, pages=pages, page_size=PAGE_SIZE, window=min(window, pages * PAGE_SIZE)
    )
