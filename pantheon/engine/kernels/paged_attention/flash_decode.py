"""One query token a row: the window split over programs, their parts merged by a second kernel.

A part is a fixed stretch of a sequence, so that what a row yields depends on neither the other
rows nor on how wide their tables are (flash decoding: Dao et al., 2023). The query heads that
share a key head are the queries of one tile: keys and values are read once for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array, Float, Int

from pantheon.engine.kernels.paged_attention.flash_pages import PageShape, attend, tile_bounds
from pantheon.engine.kernels.pallas import Ref, launch, masked_load, masked_store, power_of_two


@dataclass(frozen=True, slots=True)
class DecodeTiles:
    """How decoding is laid out on a GPU.

    Attributes:
        part: tokens that one program reads, rounded down to whole pages, one at least.
        keys: at most so many tokens in a tile.
        merged: parts that are read at once when they are merged.
        warps, stages: see `launch`. A page is looked up a stage before it is read, so that of five
            stages two tiles of keys and values are held in shared memory.
    """

    part: int = 256
    keys: int = 32
    merged: int = 16
    warps: int = 4
    stages: int = 5


_TILES: Final = DecodeTiles()


def flash_decode(
    query: Float[Array, "batch 1 heads head_dim"],
    key_pages: Float[Array, "pages kv_heads page_size head_dim"],
    value_pages: Float[Array, "pages kv_heads page_size head_dim"],
    block_tables: Int[Array, "batch blocks"],
    positions: Int[Array, "batch 1"],
    lengths: Int[Array, " batch"],
    *,
    scale: float,
    window: int = 0,
    tiles: DecodeTiles = _TILES,
    interpret: bool = False,
) -> Float[Array, "batch 1 heads head_dim"]:
    """See `paged_attention`. Pages are float16, bfloat16 or float32.

    Queries and weights are rounded to the type of the pages; sums are float32.

    Args:
        interpret: see `launch`.
    """
    batch, _, heads, head_dim = query.shape
    _, kv_heads, page_size, _ = key_pages.shape
    shape = PageShape.of(page_size, head_dim, tiles.keys)
    part = max(1, tiles.part // page_size) * shape.tiles
    parts = -(-block_tables.shape[1] * shape.tiles // part)
    group = heads // kv_heads
    grouped = query.reshape(batch, kv_heads, group, head_dim)
    placed = (positions.reshape(batch).astype(jnp.int32), lengths.astype(jnp.int32))
    held = (batch, kv_heads, parts, group)
    stored = [
        jax.ShapeDtypeStruct(held, jnp.float32),  # type: ignore[no-untyped-call]
        jax.ShapeDtypeStruct(held, jnp.float32),  # type: ignore[no-untyped-call]
        jax.ShapeDtypeStruct((*held, head_dim), jnp.float32),  # type: ignore[no-untyped-call]
    ]

    def bounds(
        position: Int[Array, ""], length: Int[Array, ""]
    ) -> tuple[Int[Array, ""], Int[Array, ""]]:
        return tile_bounds(shape, position, position, length, window)

    def flash_decode_part(
        query: Ref,
        key_pages: Ref,
        value_pages: Ref,
        block_tables: Ref,
        positions: Ref,
        lengths: Ref,
        peaks: Ref,
        totals: Ref,
        mixed: Ref,
    ) -> None:
        index, kv_head, row = pl.program_id(0), pl.program_id(1), pl.program_id(2)
        position, length = positions[row], lengths[row]
        first, end = bounds(position, length)
        first = jnp.maximum(first, index * part)
        end = jnp.minimum(end, (index + 1) * part)

        @pl.when(first < end)
        def _() -> None:
            queries, dims = power_of_two(group), power_of_two(head_dim)
            head = jnp.arange(queries, dtype=jnp.int32)
            dim = jnp.arange(dims, dtype=jnp.int32)
            mask = (head < group)[:, None] & (dim < head_dim)[None, :]
            tile = (head[:, None], dim[None, :])
            seen = attend(
                masked_load(query.at[row, kv_head, *tile], mask),
                jnp.full((queries,), position, jnp.int32),
                length,
                key_pages,
                value_pages,
                block_tables,
                row,
                kv_head,
                (first, end),
                shape=shape,
                scale=scale,
                window=window,
            )
            masked_store(peaks.at[row, kv_head, index, head], seen.peak, head < group)
            masked_store(totals.at[row, kv_head, index, head], seen.total, head < group)
            masked_store(mixed.at[row, kv_head, index, *tile], seen.mixed, mask)

    def flash_decode_merge(
        peaks: Ref, totals: Ref, mixed: Ref, positions: Ref, lengths: Ref, output: Ref
    ) -> None:
        head, row = pl.program_id(0), pl.program_id(1)
        first, end = bounds(positions[row], lengths[row])
        dims = power_of_two(head_dim)
        dim = jnp.arange(dims, dtype=jnp.int32)
        # Those that no program has written are not read.
        first, end = first // part, (end + part - 1) // part

        def add(
            index: Int[Array, ""],
            seen: tuple[Float[Array, ""], Float[Array, ""], Float[Array, " dims"]],
        ) -> tuple[Float[Array, ""], Float[Array, ""], Float[Array, " dims"]]:
            chosen = first + index * tiles.merged + jnp.arange(tiles.merged, dtype=jnp.int32)
            place = (row, head // group, chosen, head % group)
            written = chosen < end
            peak = masked_load(peaks.at[place], written, -jnp.inf)
            total = masked_load(totals.at[place], written)
            values = masked_load(
                mixed.at[row, head // group, chosen[:, None], head % group, dim[None, :]],
                written[:, None] & (dim < head_dim)[None, :],
            )
            highest = jnp.maximum(seen[0], jnp.max(peak))
            finite = jnp.where(highest > -jnp.inf, highest, 0.0)
            correction, weights = jnp.exp2(seen[0] - finite), jnp.exp2(peak - finite)
            return (
                highest,
                seen[1] * correction + jnp.sum(weights * total),
                seen[2] * correction + jnp.sum(weights[:, None] * values, axis=0),
            )

        nothing = (jnp.float32(-jnp.inf), jnp.float32(0), jnp.zeros((dims,), jnp.float32))
        count = (end - first + tiles.merged - 1) // tiles.merged
        _, total, sums = jax.lax.fori_loop(0, count, add, nothing)
        sums = sums / jnp.where(total == 0, 1.0, total)
        masked_store(output.at[row, head, dim], sums.astype(output.dtype), dim < head_dim)

    partial = launch(
        flash_decode_part,
        (grouped, key_pages, value_pages, block_tables.astype(jnp.int32), *placed),
        stored,
        grid=(parts, kv_heads, batch),
        warps=tiles.warps,
        stages=tiles.stages,
        interpret=interpret,
    )
    merged = launch(
        flash_decode_merge,
        (*partial, *placed),
        [jax.ShapeDtypeStruct((batch, heads, head_dim), query.dtype)],  # type: ignore[no-untyped-call]
        grid=(heads, batch),
        warps=4,
        stages=2,
        interpret=interpret,
    )[0]
    return merged.reshape(query.shape)
