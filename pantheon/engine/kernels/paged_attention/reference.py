"""The definition: gather everything, one softmax."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def reference(
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
    pages, kv_heads, page_size, _ = key_pages.shape
    tables = jnp.clip(block_tables, 0, pages - 1)
    token = jnp.arange(tables.shape[1] * page_size)
    held = token < lengths[:, None]

    def gather(
        source: Float[Array, "pages kv_heads page_size head_dim"],
    ) -> Float[Array, "batch heads tokens head_dim"]:
        rows = jnp.moveaxis(source[tables], 2, 1).reshape(batch, kv_heads, -1, head_dim)
        # What stands past a sequence's end may be anything, NaN included.
        return jnp.repeat(jnp.where(held[:, None, :, None], rows, 0), heads // kv_heads, axis=1)

    keys, values = gather(key_pages), gather(value_pages)
    scores = jnp.einsum("bthd,bhkd->bhtk", query, keys) * scale
    seen = ((token <= positions[:, :, None]) & held[:, None, :])[:, None]
    if window:
        seen &= (token > positions[:, :, None] - window)[:, None]
    peak = jnp.max(jnp.where(seen, scores, -jnp.inf), axis=-1, keepdims=True)
    weights = jnp.where(seen, jnp.exp(scores - peak), 0)
    total = jnp.sum(weights, axis=-1, keepdims=True)
    mixed = jnp.einsum("bhtk,bhkd->bthd", weights / jnp.where(total > 0, total, 1), values)
    return mixed.reshape(batch, time, heads, head_dim)
