"""The operations as the model calls them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from pantheon.engine.kernels.implementation import Implementation
from pantheon.engine.kernels.paged_attention.native import native_attention, native_write
from pantheon.engine.kernels.paged_attention.online import online

CHOSEN: Final[Mapping[Implementation, str]] = MappingProxyType(
    {
        Implementation.NATIVE: "C++",
        Implementation.XLA: "plain XLA",
        Implementation.GPU: "flash kernels in Pallas, pages written by XLA",
        Implementation.GPU_INTERPRETED: "flash kernels in Pallas, interpreted",
    }
)
"""What computes the operations of this package."""


def paged_attention(
    query: Float[Array, "batch time heads head_dim"],
    key_pages: Float[Array, "pages kv_heads page_size head_dim"],
    value_pages: Float[Array, "pages kv_heads page_size head_dim"],
    block_tables: Int[Array, "batch blocks"],
    positions: Int[Array, "batch time"],
    lengths: Int[Array, " batch"],
    live: Int[Array, " bounds"] | None = None,
    *,
    scale: float,
    window: int = 0,
    implementation: Implementation = Implementation.XLA,
) -> Float[Array, "batch time heads head_dim"]:
    """Attend from each query token to the tokens at or before its position.

    Query head h reads key head h // (heads / kv_heads). A token sees position p of its own
    sequence if p <= its position and p < the sequence's length; one that sees nothing
    (padding) yields zeros.

    Args:
        block_tables: pages of each sequence in order; what stands past a sequence's end is
            not read.
        lengths: tokens held by each sequence, 0 for a padding row.
        live: of the tokens of all sequences as one axis, the first that is no padding and one past
            the last. What comes out for the others means nothing; the native kernels and those for
            GPUs spend no time on it. None for no padding.
        window: how many tokens back a token sees, itself included; 0 for all.
        implementation: see `CHOSEN`.
    """
    arguments = (query, key_pages, value_pages, block_tables, positions, lengths)
    if implementation is Implementation.NATIVE:
        return native_attention(*arguments, live, scale=scale, window=window)
    if implementation.is_gpu:
        # Imported here: Pallas would take a fifth of a second of every start on a CPU.
        from pantheon.engine.kernels.paged_attention.flash_decode import flash_decode
        from pantheon.engine.kernels.paged_attention.flash_prefill import flash_prefill

        interpret = implementation.is_interpreted
        if query.shape[1] == 1:
            return flash_decode(*arguments, scale=scale, window=window, interpret=interpret)
        return flash_prefill(*arguments, live, scale=scale, window=window, interpret=interpret)
    return online(*arguments, scale=scale, window=window)


def write_pages(
    key_pages: Float[Array, "pages kv_heads page_size head_dim"],
    value_pages: Float[Array, "pages kv_heads page_size head_dim"],
    keys: Float[Array, "batch time kv_heads head_dim"],
    values: Float[Array, "batch time kv_heads head_dim"],
    pages: Int[Array, "batch time"],
    offsets: Int[Array, "batch time"],
    *,
    implementation: Implementation = Implementation.XLA,
) -> tuple[
    Float[Array, "pages kv_heads page_size head_dim"],
    Float[Array, "pages kv_heads page_size head_dim"],
]:
    """Store keys and values of tokens in their pages, in the type of those.

    In float16 what it cannot hold, from 65520 on, becomes NaN, so that whoever attends to it has
    no numbers: an infinite key would be one that half of the queries pass over in silence.

    Args:
        pages: page of each token; the number of pages, one past the last, for one that is not
            stored.
        offsets: index of each token inside its page.
        implementation: see `CHOSEN`.
    """
    if implementation is Implementation.NATIVE:
        return native_write(key_pages, value_pages, keys, values, pages, offsets)

    def store(
        held: Float[Array, "pages kv_heads page_size head_dim"],
        new: Float[Array, "batch time kv_heads head_dim"],
    ) -> Float[Array, "pages kv_heads page_size head_dim"]:
        stored = new.astype(held.dtype)
        if held.dtype == jnp.float16:
            stored = jnp.where(jnp.isinf(stored), jnp.nan, stored)
        return held.at[pages, :, offsets, :].set(stored, mode="drop")

    return store(key_pages, keys), store(value_pages, values)
