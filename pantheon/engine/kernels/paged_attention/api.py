"""The operation as the model calls it."""

from __future__ import annotations

from jaxtyping import Array, Float, Int

from pantheon.engine.kernels.paged_attention.online import online


def paged_attention(
    query: Float[Array, "batch time heads head_dim"],
    key_pages: Float[Array, "pages kv_heads page_size head_dim"],
    value_pages: Float[Array, "pages kv_heads page_size head_dim"],
    block_tables: Int[Array, "batch blocks"],
    positions: Int[Array, "batch time"],
    lengths: Int[Array, " batch"],
    *,
    scale: float,
    window: int = 0,
) -> Float[Array, "batch time heads head_dim"]:
    """Attend from each query token to the tokens at or before its position.

    Query head h reads key head h // (heads / kv_heads). A token sees position p of its own
    sequence if p <= its position and p < the sequence's length; one that sees nothing
    (padding) yields zeros.

    Args:
        block_tables: pages of each sequence in order; what stands past a sequence's end is
            not read.
        lengths: tokens held by each sequence, 0 for a padding row.
        window: how many tokens back a token sees, itself included; 0 for all.
    """
    return online(
        query,
        key_pages,
        value_pages,
        block_tables,
        positions,
        lengths,
        scale=scale,
        window=window,
    )
