"""A chunk of queries over the pages before it and in it: a tile of queries a program.

A program has one query head. Those that share a key head read the same pages, one after another
out of the cache of the device.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array, Float, Int

from pantheon.engine.kernels.paged_attention.flash_pages import PageShape, attend, tile_bounds
from pantheon.engine.kernels.pallas import Ref, launch, masked_load, masked_store, power_of_two


@dataclass(frozen=True, slots=True)
class PrefillTiles:
    """How prefill is laid out on a GPU.

    Attributes:
        queries: tokens of a program, a power of two from 16 on.
        keys: at most so many tokens in a tile.
        warps, stages: see `launch`.
    """

    queries: int = 64
    keys: int = 64
    warps: int = 8
    stages: int = 5

    @classmethod
    def of(cls, head_dim: int, itemsize: int) -> PrefillTiles:
        """Those for keys of so many dimensions of so many bytes."""
        return cls(keys=64 if head_dim * itemsize <= 256 else 32)


def flash_prefill(
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
    tiles: PrefillTiles | None = None,
    interpret: bool = False,
) -> Float[Array, "batch time heads head_dim"]:
    """See `paged_attention`. Pages are float16, bfloat16 or float32.

    Queries and weights are rounded to the type of the pages; sums are float32. Tokens outside of
    `live` come out as zeros.

    Args:
        tiles: None for those of `PrefillTiles.of`.
        interpret: see `launch`.
    """
    batch, time, heads, head_dim = query.shape
    _, kv_heads, page_size, _ = key_pages.shape
    tiles = tiles or PrefillTiles.of(head_dim, key_pages.dtype.itemsize)
    shape = PageShape.of(page_size, head_dim, tiles.keys)
    queries, dims = min(tiles.queries, power_of_two(time)), power_of_two(head_dim)
    group = heads // kv_heads
    # A token at position -1 sees nothing.
    positions = positions.astype(jnp.int32)
    if live is not None:
        token = jnp.arange(batch * time, dtype=jnp.int32).reshape(batch, time)
        positions = jnp.where((live[0] <= token) & (token < live[1]), positions, -1)

    def flash_prefill_tile(
        query: Ref,
        key_pages: Ref,
        value_pages: Ref,
        block_tables: Ref,
        positions: Ref,
        lengths: Ref,
        output: Ref,
    ) -> None:
        index, head, row = pl.program_id(0), pl.program_id(1), pl.program_id(2)
        token = index * queries + jnp.arange(queries, dtype=jnp.int32)
        dim = jnp.arange(dims, dtype=jnp.int32)
        mask = (token < time)[:, None] & (dim < head_dim)[None, :]
        place = (row, token[:, None], head, dim[None, :])
        position = masked_load(positions.at[row, token], token < time, -1)
        newest = jnp.max(position)
        oldest = jnp.min(jnp.where(position < 0, newest, position))
        length = lengths[row]
        seen = attend(
            masked_load(query.at[place], mask),
            position,
            length,
            key_pages,
            value_pages,
            block_tables,
            row,
            head // group,
            tile_bounds(shape, oldest, newest, length, window),
            shape=shape,
            scale=scale,
            window=window,
        )
        mixed = seen.mixed / jnp.where(seen.total == 0, 1.0, seen.total)[:, None]
        masked_store(output.at[place], mixed.astype(output.dtype), mask)

    (mixed,) = launch(
        flash_prefill_tile,
        (
            query,
            key_pages,
            value_pages,
            block_tables.astype(jnp.int32),
            positions,
            lengths.astype(jnp.int32),
        ),
        [jax.ShapeDtypeStruct(query.shape, query.dtype)],  # type: ignore[no-untyped-call]
        grid=(-(-time // queries), heads, batch),
        warps=tiles.warps,
        stages=tiles.stages,
        interpret=interpret,
    )
    return mixed
