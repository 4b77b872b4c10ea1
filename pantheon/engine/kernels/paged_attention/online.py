"""Plain XLA: row by row, page by page, with a running softmax.

The inner loop runs over the pages that a sequence uses, a number known only at run time: cost
follows the used part of the window, nothing is compiled per length, and no array grows with the
window (online softmax: Milakov and Gimelshein, 2018; tiles: Dao et al., 2022). Each row has a
loop of its own, so its result cannot depend on its neighbours.

Pages are read by dynamic slices: measured on CPU they are copied at twice the speed of a gather.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

_Carry = tuple[
    Float[Array, "kv_heads queries"],
    Float[Array, "kv_heads queries"],
    Float[Array, "kv_heads queries head_dim"],
]


def online(
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
    """See `paged_attention`."""
    batch, time, heads, head_dim = query.shape
    kv_heads = key_pages.shape[1]
    group = heads // kv_heads
    # The query heads that share a key head stand together: (group, time) is one axis of queries.
    grouped = jnp.transpose(query.reshape(batch, time, kv_heads, group, head_dim), (0, 2, 3, 1, 4))
    grouped = grouped.reshape(batch, kv_heads, group * time, head_dim) * scale

    def add_row(
        row: Int[Array, ""], mixed: Float[Array, "batch kv_heads queries head_dim"]
    ) -> Float[Array, "batch kv_heads queries head_dim"]:
        one = _attend(
            grouped[row],
            key_pages,
            value_pages,
            block_tables[row],
            jnp.tile(positions[row], group),
            lengths[row],
            window,
        )
        return mixed.at[row].set(one)

    mixed = jax.lax.fori_loop(0, batch, add_row, jnp.zeros_like(grouped))
    mixed = mixed.reshape(batch, kv_heads, group, time, head_dim)
    return jnp.transpose(mixed, (0, 3, 1, 2, 4)).reshape(batch, time, heads, head_dim)


def _attend(
    query: Float[Array, "kv_heads queries head_dim"],
    key_pages: Float[Array, "pages kv_heads page_size head_dim"],
    value_pages: Float[Array, "pages kv_heads page_size head_dim"],
    block_table: Int[Array, " blocks"],
    positions: Int[Array, " queries"],
    length: Int[Array, ""],
    window: int,
) -> Float[Array, "kv_heads queries head_dim"]:
    """Attention of one sequence; `query` is scaled already."""
    kv_heads, queries, head_dim = query.shape
    page_size = key_pages.shape[2]
    precision = jax.lax.Precision.HIGHEST

    def add_page(index: Int[Array, ""], carry: _Carry) -> _Carry:
        peak, total, mixed = carry
        page = block_table[index]
        keys = jax.lax.dynamic_index_in_dim(key_pages, page, keepdims=False)
        keys = keys.astype(query.dtype)
        values = jax.lax.dynamic_index_in_dim(value_pages, page, keepdims=False)
        values = values.astype(query.dtype)
        scores = jnp.einsum("hqd,hkd->hqk", query, keys, precision=precision)
        token = index * page_size + jnp.arange(page_size)
        held = token < length
        seen = (token <= positions[:, None]) & held
        if window:
            seen &= token > positions[:, None] - window
        # A weight of zero does not undo what others left past the end: it may be no number.
        values = jnp.where(held[:, None], values, 0)
        scores = jnp.where(seen, scores, -jnp.inf)
        new_peak = jnp.maximum(peak, jnp.max(scores, axis=-1))
        # A query that has seen nothing yet keeps -inf as its maximum; 0 stands in for it here,
        # since -inf - -inf is not a number.
        finite = jnp.where(new_peak > -jnp.inf, new_peak, 0)
        correction = jnp.exp(peak - finite)
        weights = jnp.exp(scores - finite[..., None])
        added = jnp.einsum("hqk,hkd->hqd", weights, values, precision=precision)
        return (
            new_peak,
            total * correction + jnp.sum(weights, axis=-1),
            mixed * correction[..., None] + added,
        )

    start = (
        jnp.full((kv_heads, queries), -jnp.inf, query.dtype),
        jnp.zeros((kv_heads, queries), query.dtype),
        jnp.zeros((kv_heads, queries, head_dim), query.dtype),
    )
    used = (length + page_size - 1) // page_size
    # Pages that lie before the window of every query are passed over.
    first = jnp.maximum(jnp.min(positions) - window + 1, 0) // page_size if window else 0
    total: Float[Array, "kv_heads queries"]
    mixed: Float[Array, "kv_heads queries head_dim"]
    _, total, mixed = jax.lax.fori_loop(first, used, add_page, start)
    return mixed / jnp.where(total > 0, total, 1)[..., None]
