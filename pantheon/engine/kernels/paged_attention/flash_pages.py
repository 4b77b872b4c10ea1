"""One tile of queries over pages: the loop that prefill and decode share.

Scores of a tile of keys are made, weighed and forgotten in registers (Dao et al., 2022), with a
running softmax (Milakov and Gimelshein, 2018). Exponents are of two, which the device has an
instruction for. Products are in the type of the pages and summed in float32.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from pantheon.engine.kernels.pallas import Ref, masked_load, power_of_two

_PRECISION = jax.lax.Precision.HIGHEST


@dataclass(frozen=True, slots=True)
class PageShape:
    """How pages are cut into tiles.

    Attributes:
        page_size: tokens of a page.
        head_dim: of keys and values.
        keys: tokens of a tile, a power of two from 16 on. A page's last tile may stick out.
    """

    page_size: int
    head_dim: int
    keys: int

    @classmethod
    def of(cls, page_size: int, head_dim: int, most: int) -> PageShape:
        """Tiles of no more than `most` tokens, and not much larger than a page."""
        return cls(page_size, head_dim, min(most, power_of_two(page_size)))

    @property
    def tiles(self) -> int:
        """Of a page."""
        return -(-self.page_size // self.keys)

    def tile_of(self, token: Int[Array, ""]) -> Int[Array, ""]:
        """Index of the tile in which a token of a sequence is."""
        if self.tiles == 1:
            return token // self.page_size
        return token // self.page_size * self.tiles + token % self.page_size // self.keys


class RunningSoftmax(NamedTuple):
    """What a tile of queries has seen.

    Attributes:
        peak: the largest score, times log2(e); minus infinity where nothing was seen.
        total: the sum of 2 ** (score - peak).
        mixed: the values, weighted alike.
    """

    peak: Float[Array, " queries"]
    total: Float[Array, " queries"]
    mixed: Float[Array, "queries dims"]


def tile_bounds(
    shape: PageShape,
    oldest: Int[Array, ""],
    newest: Int[Array, ""],
    length: Int[Array, ""],
    window: int,
) -> tuple[Int[Array, ""], Int[Array, ""]]:
    """First tile that queries at these positions see, and one past the last.

    The second is no more than the first for queries that see nothing.
    """
    last = jnp.minimum(newest, length - 1)
    end = jnp.where(last < 0, 0, shape.tile_of(jnp.maximum(last, 0)) + 1)
    first = shape.tile_of(jnp.maximum(oldest - window + 1, 0)) if window else jnp.int32(0)
    return first, end


def attend(
    query: Float[Array, "queries dims"],
    positions: Int[Array, " queries"],
    length: Int[Array, ""],
    key_pages: Ref,
    value_pages: Ref,
    block_tables: Ref,
    row: Int[Array, ""],
    kv_head: Int[Array, ""],
    tiles: tuple[Int[Array, ""], Int[Array, ""]],
    *,
    shape: PageShape,
    scale: float,
    window: int,
) -> RunningSoftmax:
    """See `tiles`, the first and one past the last, of one sequence and one key head.

    Args:
        positions: of the queries; -1 for one that sees nothing.
        key_pages, value_pages: `[pages, kv_heads, page_size, head_dim]`.
        block_tables: `[batch, blocks]`.
        row: of the sequence in it.
    """
    queries, dims = query.shape
    query = query.astype(key_pages.dtype)
    # Infinite in float16, a query might pass over every key in silence.
    query = jnp.where(jnp.abs(query) < jnp.inf, query, jnp.nan)
    in_tile = jnp.arange(shape.keys, dtype=jnp.int32)
    dim = jnp.arange(dims, dtype=jnp.int32)

    def add_tile(index: Int[Array, ""], seen: RunningSoftmax) -> RunningSoftmax:
        block = index // shape.tiles
        offset = index % shape.tiles * shape.keys + in_tile
        token = block * shape.page_size + offset
        held = token < length
        if shape.page_size % shape.keys:
            held &= offset < shape.page_size
        page = block_tables[row, block]
        place = (page, kv_head, offset[:, None], dim[None, :])
        # A weight of zero does not undo what others left past the end: it may be no number.
        mask = jnp.broadcast_to(held[:, None], (shape.keys, dims))
        if dims > shape.head_dim:
            mask &= dim[None, :] < shape.head_dim
        keys = masked_load(key_pages.at[place], mask)
        values = masked_load(value_pages.at[place], mask)
        scores = jax.lax.dot_general(
            query,
            keys,
            (((1,), (1,)), ((), ())),
            precision=_PRECISION,
            preferred_element_type=jnp.float32,
        )
        visible = held[None, :] & (token[None, :] <= positions[:, None])
        if window:
            visible &= token[None, :] > positions[:, None] - window
        scores = jnp.where(visible, scores * (scale * math.log2(math.e)), -jnp.inf)
        peak = jnp.maximum(seen.peak, jnp.max(scores, axis=1))
        # A query that has seen nothing yet keeps -inf as its maximum; 0 stands in for it here,
        # since -inf - -inf is not a number.
        finite = jnp.where(peak > -jnp.inf, peak, 0.0)
        correction = jnp.exp2(seen.peak - finite)
        weights = jnp.exp2(scores - finite[:, None])
        added = jnp.dot(
            weights.astype(values.dtype),
            values,
            precision=_PRECISION,
            preferred_element_type=jnp.float32,
        )
        return RunningSoftmax(
            peak,
            seen.total * correction + jnp.sum(weights, axis=1),
            seen.mixed * correction[:, None] + added,
        )

    nothing = RunningSoftmax(
        jnp.full((queries,), -jnp.inf, jnp.float32),
        jnp.zeros((queries,), jnp.float32),
        jnp.zeros((queries, dims), jnp.float32),
    )
    seen: RunningSoftmax = jax.lax.fori_loop(*tiles, add_tile, nothing)
    return seen
