"""Pairs of tokens and experts, sorted on the device, and cut into tiles of one expert each."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Int


class ExpertPairs(NamedTuple):
    """The (token, choice) pairs of a step, those of one expert next to each other.

    Attributes:
        order: numbers of the pairs, `token * used + choice`, by expert; in the order of tokens
            where experts are equal. Pairs without an expert are last.
        starts, counts: where the pairs of each expert stand in `order`.
    """

    order: Int[Array, " pairs"]
    starts: Int[Array, " experts"]
    counts: Int[Array, " experts"]


class ExpertTiles(NamedTuple):
    """Places of `ExpertPairs.order` that are computed together; all of them int32.

    Attributes:
        expert: of each tile.
        first: its first place.
        filled: how many of its places there are; zero for a tile that is not needed.
    """

    expert: Int[Array, " tiles"]
    first: Int[Array, " tiles"]
    filled: Int[Array, " tiles"]


def by_expert(chosen: Int[Array, "tokens used"], experts: int) -> ExpertPairs:
    """Sort the choices of tokens.

    Args:
        chosen: numbers of experts; `experts` and above for a choice that is none, as those of
            padding are.
    """
    flat = jnp.minimum(chosen.reshape(-1), experts)
    counts = jnp.zeros(experts, jnp.int32).at[flat].add(1, mode="drop")
    return ExpertPairs(
        order=jnp.argsort(flat, stable=True).astype(jnp.int32),
        starts=jnp.cumsum(counts, dtype=jnp.int32) - counts,
        counts=counts,
    )


def most_tiles(pairs: int, experts: int, size: int) -> int:
    """Tiles of `size` places that are enough for any choice: every expert may leave one of its
    tiles unfilled."""
    return pairs // size + min(experts, pairs)


def tiles_of(pairs: ExpertPairs, size: int) -> ExpertTiles:
    """Cut each expert's places into tiles of at most `size`."""
    experts = pairs.counts.shape[0]
    each = (pairs.counts + size - 1) // size
    ends = jnp.cumsum(each, dtype=jnp.int32)
    tile = jnp.arange(most_tiles(pairs.order.shape[0], experts, size), dtype=jnp.int32)
    # By comparing with all: a search is a loop, which the host may have to drive.
    expert = jnp.searchsorted(ends, tile, side="right", method="compare_all").astype(jnp.int32)
    # Tiles that are not needed are past the last expert, and have nothing.
    known = jnp.minimum(expert, experts - 1)
    passed = (tile - (ends - each)[known]) * size
    left = jnp.where(expert < experts, pairs.counts[known] - passed, 0)
    return ExpertTiles(
        expert=known,
        first=jnp.where(left > 0, pairs.starts[known] + passed, 0),
        filled=jnp.clip(left, 0, size),
    )
