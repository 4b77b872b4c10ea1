"""The paged key and value arrays of one model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from pantheon.engine.kernels.implementation import Implementation
from pantheon.engine.kernels.paged_attention import write_pages
from pantheon.engine.kernels.zeros import zeros


class LayerCache(NamedTuple):
    """Keys and values of one attention layer, a page being `page_size` tokens of one sequence.

    The heads stand before the tokens of a page, so that a gathered page is already laid out as
    the attention product reads it.
    """

    keys: Float[Array, "pages kv_heads page_size head_dim"]
    values: Float[Array, "pages kv_heads page_size head_dim"]


class StackedCache(NamedTuple):
    """Keys and values of all layers in one array, for kernels that run all layers in one call.

    The layers of a page stand together, keys before values, each as `LayerCache` has it.
    """

    pages: Float[Array, "pages layers 2 kv_heads page_size head_dim"]


KVCache = tuple[LayerCache, ...] | StackedCache
"""One `LayerCache` per attention layer, or all of them. The first axis of every array is pages."""

RecurrentStates = tuple[Float[Array, "slots ..."], ...]
"""One array per recurrent layer: the state of each row, of padding, and of each checkpoint."""


class ModelCache(NamedTuple):
    """What a model remembers between steps. Owned by the runner, donated to every step."""

    kv: KVCache
    recurrent: RecurrentStates = ()


def allocate(
    layers: int,
    pages: int,
    kv_heads: int,
    page_size: int,
    head_dim: int,
    dtype: jnp.dtype,
    *,
    native: bool = False,
    stacked: bool = False,
) -> KVCache:
    """Zeroed arrays for `pages` pages in each of `layers` layers; see `zeros` for `native`.

    Args:
        stacked: whether all layers are one array.
    """
    shape = (pages, kv_heads, page_size, head_dim)
    if stacked:
        return StackedCache(*zeros([(pages, layers, 2, *shape[1:])], dtype, native=native))
    arrays = iter(zeros([shape] * 2 * layers, dtype, native=native))
    return tuple(LayerCache(keys, values) for keys, values in zip(arrays, arrays, strict=True))


def allocate_recurrent(
    shapes: Sequence[tuple[int, ...]], slots: int, *, native: bool = False
) -> RecurrentStates:
    """Zeroed states of `slots` sequences, whose shapes are given layer by layer."""
    return zeros([(slots, *shape) for shape in shapes], jnp.dtype(jnp.float32), native=native)


def page_count(kv: KVCache) -> int:
    """How many pages there are."""
    pages: int = jax.tree.leaves(kv)[0].shape[0]
    return pages


class Placement(NamedTuple):
    """Where the tokens of a step stand in their sequences and in the pages.

    Attributes:
        positions: position of each token in its sequence.
        pages: page that takes the token's keys and values; the number of pages, one past the
            last, for padding: such a write is dropped.
        offsets: index of the token inside its page.
        block_tables: the pages of each sequence in order, any value past its end.
        lengths: tokens of each sequence that attention may see, those of this step included.
        valid: which tokens are real; a recurrent layer passes over the others.
        slots: slot of each sequence's recurrent states.
        live: of all tokens as one axis, the first real one and one past the last; between them
            there may be padding, outside there is nothing else.
        wanted: among those the first and one past the last whose hidden states are asked for;
            what comes out for others means nothing.
    """

    positions: Int[Array, "batch time"]
    pages: Int[Array, "batch time"]
    offsets: Int[Array, "batch time"]
    block_tables: Int[Array, "batch blocks"]
    lengths: Int[Array, " batch"]
    valid: Bool[Array, "batch time"]
    slots: Int[Array, " batch"]
    live: Int[Array, " bounds"]
    wanted: Int[Array, " bounds"]


def place(
    positions: Int[Array, "batch time"],
    valid: Bool[Array, "batch time"],
    block_tables: Int[Array, "batch blocks"],
    lengths: Int[Array, " batch"],
    slots: Int[Array, " batch"],
    wanted: Int[Array, " bounds"] | None = None,
    *,
    page_size: int,
    total_pages: int,
) -> Placement:
    """Look up page and offset of each position; tokens that are not `valid` go nowhere.

    Args:
        wanted: see `Placement`; None for all that are valid.
    """
    live = _live(valid.reshape(-1))
    pages = jnp.take_along_axis(block_tables, positions // page_size, axis=1, mode="clip")
    return Placement(
        positions=positions,
        pages=jnp.where(valid, pages, total_pages),
        offsets=positions % page_size,
        block_tables=block_tables,
        lengths=lengths,
        valid=valid,
        slots=slots,
        live=live,
        wanted=live if wanted is None else wanted,
    )


def _live(valid: Bool[Array, " tokens"]) -> Int[Array, " bounds"]:
    index = jnp.arange(valid.shape[0], dtype=jnp.int32)
    end = jnp.max(jnp.where(valid, index + 1, 0))
    return jnp.stack([jnp.minimum(jnp.min(jnp.where(valid, index, end)), end), end])


def write(
    cache: LayerCache,
    placement: Placement,
    keys: Float[Array, "batch time kv_heads head_dim"],
    values: Float[Array, "batch time kv_heads head_dim"],
    *,
    implementation: Implementation = Implementation.XLA,
) -> LayerCache:
    """Store the keys and values of a step in their pages; see `write_pages`."""
    return LayerCache(
        *write_pages(
            cache.keys,
            cache.values,
            keys,
            values,
            placement.pages,
            placement.offsets,
            implementation=implementation,
        )
    )
