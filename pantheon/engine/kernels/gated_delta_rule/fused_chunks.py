"""The algorithm of `chunked` in Pallas, by two kernels.

The first solves the triangular system of each chunk, all chunks at once, since it needs no state:
it leaves the inverse of the system's matrix and the scores of the queries. The second runs a
tile of the state through the chunks, five products for each.

The inverse is made by doubling. Where the blocks A and C on the diagonal of `[[A, 0], [B, C]]` are
inverted, what stands below them is `-C^-1 B A^-1`: each level is two products, six of them invert
a chunk of 64. All that is ever computed are inverses of blocks, and entries of those are of keys
of length one no more than one: each is what one token's value still adds to a later change. So
nothing cancels, which a series of powers of the matrix would where keys repeat.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array, Bool, Float, Int

from pantheon.engine.kernels.gated_delta_rule.chunked import CHUNK
from pantheon.engine.kernels.pallas import (
    Ref,
    float32_dot,
    launch,
    masked_load,
    masked_store,
    power_of_two,
)

_LEVELS: Final = CHUNK.bit_length() - 1
"""How often blocks of one token are doubled until a chunk is one block."""

_Added = tuple[Float[Array, "keys values"], Float[Array, "chunk values"]]


@dataclass(frozen=True, slots=True)
class ChunkTiles:
    """How prefill is laid out on a GPU.

    Attributes:
        values: value dimensions of a program of the second kernel, a power of two from 16 on.
        solve_warps, warps: of a program of the first and of the second; see `launch`.
    """

    values: int = 32
    solve_warps: int = 4
    warps: int = 4


def fused_chunks(
    query: Float[Array, "batch time heads key_dim"],
    key: Float[Array, "batch time heads key_dim"],
    value: Float[Array, "batch time heads value_dim"],
    log_decay: Float[Array, "batch time heads"],
    strength: Float[Array, "batch time heads"],
    valid: Bool[Array, "batch time"],
    state: Float[Array, "batch heads key_dim value_dim"],
    *,
    tiles: ChunkTiles | None = None,
    interpret: bool = False,
) -> tuple[
    Float[Array, "batch time heads value_dim"], Float[Array, "batch heads key_dim value_dim"]
]:
    """See `gated_delta_rule`. Keys are of length one or less.

    What stands at tokens that are not valid is not read; their output is zeros. A chunk without
    valid tokens costs nothing.

    Args:
        tiles: None for those of `ChunkTiles()`.
        interpret: see `launch`.
    """
    batch, time, heads, key_dim = query.shape
    value_dim = value.shape[-1]
    tiles = tiles or ChunkTiles()
    chunks = -(-time // CHUNK)
    keys, values = power_of_two(key_dim), min(tiles.values, power_of_two(value_dim))
    real = valid.astype(jnp.int32)
    square = jax.ShapeDtypeStruct((batch, heads, chunks, CHUNK, CHUNK), jnp.float32)  # type: ignore[no-untyped-call]
    dot = partial(float32_dot, interpret=interpret)
    has_key = partial(_below, keys, key_dim)

    def solve(
        query: Ref,
        key: Ref,
        log_decay: Ref,
        strength: Ref,
        valid: Ref,
        inverses: Ref,
        scores: Ref,
    ) -> None:
        chunk, head, row = pl.program_id(0), pl.program_id(1), pl.program_id(2)
        place = (row, pl.ds(chunk * CHUNK, CHUNK), head)
        is_real = _real(valid, row, chunk, time)

        @pl.when(_any(is_real))
        def _() -> None:
            in_keys = (*place, pl.ds(0, keys))
            mask = is_real[:, None] & has_key()[None, :]
            held_keys = _read(key.at[in_keys], mask)
            asked = _read(query.at[in_keys], mask)
            total = _running(_read(log_decay.at[place], is_real))
            factor = _read(strength.at[place], is_real)
            later, earlier = _places()
            # Above the diagonal the exponent is positive and may overflow; nothing there is used.
            since = jnp.where(later >= earlier, total[:, None] - total[None, :], -jnp.inf)
            between = jnp.exp(since)
            system = dot(held_keys, held_keys, (1, 1)) * between * factor[:, None]
            inverse = _inverse(jnp.where(later > earlier, system, 0.0), interpret=interpret)
            in_square = (row, head, chunk, pl.ds(0, CHUNK), pl.ds(0, CHUNK))
            inverses[in_square] = inverse * factor[None, :]
            scores[in_square] = dot(asked, held_keys, (1, 1)) * between

    def add_chunks(
        query: Ref,
        key: Ref,
        value: Ref,
        log_decay: Ref,
        valid: Ref,
        inverses: Ref,
        scores: Ref,
        state: Ref,
        mixed: Ref,
        following: Ref,
    ) -> None:
        start, head, row = pl.program_id(0) * values, pl.program_id(1), pl.program_id(2)
        has_value = start + jnp.arange(values, dtype=jnp.int32) < value_dim
        in_state = (row, head, pl.ds(0, keys), pl.ds(start, values))
        state_mask = has_key()[:, None] & has_value[None, :]

        def add_chunk(
            chunk: Int[Array, ""], held: Float[Array, "keys values"]
        ) -> Float[Array, "keys values"]:
            place = (row, pl.ds(chunk * CHUNK, CHUNK), head)
            in_square = (row, head, chunk, pl.ds(0, CHUNK), pl.ds(0, CHUNK))
            is_real = _real(valid, row, chunk, time)

            def passed(held: Float[Array, "keys values"]) -> _Added:
                return held, jnp.zeros((CHUNK, values), jnp.float32)

            def added(held: Float[Array, "keys values"]) -> _Added:
                decay = _read(log_decay.at[place], is_real)
                total, until_end = _running(decay), jnp.sum(decay)
                since_start = jnp.exp(total)[:, None]
                in_keys = (*place, pl.ds(0, keys))
                key_mask = is_real[:, None] & has_key()[None, :]
                held_keys = _read(key.at[in_keys], key_mask)
                wanted = _read(
                    value.at[*place, pl.ds(start, values)], is_real[:, None] & has_value[None, :]
                )
                changes = wanted - dot(held_keys * since_start, held)
                changes = dot(inverses[in_square], changes)
                asked = _read(query.at[in_keys], key_mask)
                output = dot(asked * since_start, held) + dot(scores[in_square], changes)
                kept = held_keys * jnp.exp(until_end - total)[:, None]
                return held * jnp.exp(until_end) + dot(kept, changes, (0, 0)), output

            held, output = jax.lax.cond(_any(is_real), added, passed, held)
            in_time = _below(CHUNK, time - chunk * CHUNK)
            masked_store(
                mixed.at[*place, pl.ds(start, values)],
                output.astype(mixed.dtype),
                in_time[:, None] & has_value[None, :],
            )
            return held

        held = jax.lax.fori_loop(0, chunks, add_chunk, masked_load(state.at[in_state], state_mask))
        masked_store(following.at[in_state], held, state_mask)

    inverses, scores = launch(
        solve,
        (query, key, log_decay, strength, real),
        [square, square],
        name="gated_delta_solve",
        grid=(chunks, heads, batch),
        warps=tiles.solve_warps,
        stages=1,
        interpret=interpret,
    )
    mixed, following = launch(
        add_chunks,
        (query, key, value, log_decay, real, inverses, scores, state),
        [
            jax.ShapeDtypeStruct(value.shape, value.dtype),  # type: ignore[no-untyped-call]
            jax.ShapeDtypeStruct(state.shape, state.dtype),  # type: ignore[no-untyped-call]
        ],
        name="gated_delta_chunks",
        grid=(-(-value_dim // values), heads, batch),
        warps=tiles.warps,
        stages=1,
        interpret=interpret,
    )
    return mixed, following


def _inverse(system: Float[Array, "chunk chunk"], *, interpret: bool) -> Float[Array, "chunk chunk"]:
    """That of `system` plus the identity; `system` is strictly lower."""
    later, earlier = _places()

    def doubled(
        level: Int[Array, ""], inverse: Float[Array, "chunk chunk"]
    ) -> Float[Array, "chunk chunk"]:
        # Of two neighbouring blocks, the place in one and the place in the other.
        below = jnp.where((later >> level) ^ (earlier >> level) == 1, system, 0.0)
        added = float32_dot(inverse, below, interpret=interpret)
        return inverse - float32_dot(added, inverse, interpret=interpret)

    # Blocks of one token are inverses of themselves, so that the first level is no product.
    pairs = jnp.where(later == earlier, 1.0, 0.0) - jnp.where(later ^ earlier == 1, system, 0.0)
    inverse: jax.Array = jax.lax.fori_loop(1, _LEVELS, doubled, pairs)
    return inverse


def _running(decay: Float[Array, " chunk"]) -> Float[Array, " chunk"]:
    """Sums of the first, the first two and so on."""
    later, earlier = _places()
    return jnp.sum(jnp.where(later >= earlier, decay[None, :], 0.0), axis=1)


def _places() -> tuple[Int[Array, "chunk chunk"], Int[Array, "chunk chunk"]]:
    """Row and column of a matrix over the tokens of a chunk."""
    shape = (CHUNK, CHUNK)
    return (
        jax.lax.broadcasted_iota(jnp.int32, shape, 0),
        jax.lax.broadcasted_iota(jnp.int32, shape, 1),
    )


def _real(
    valid: Ref, row: Int[Array, ""], chunk: Int[Array, ""], time: int
) -> Bool[Array, " chunk"]:
    """Which tokens of a chunk are valid."""
    in_time = _below(CHUNK, time - chunk * CHUNK)
    return masked_load(valid.at[row, pl.ds(chunk * CHUNK, CHUNK)], in_time) != 0


def _any(real: Bool[Array, " chunk"]) -> Bool[Array, ""]:
    return jnp.max(real.astype(jnp.int32)) > 0


def _below(size: int, bound: int | Int[Array, ""]) -> Bool[Array, " size"]:
    """Which of so many places are less than a bound."""
    return jnp.arange(size, dtype=jnp.int32) < bound


def _read(ref: Ref, mask: Bool[Array, "..."]) -> Float[Array, "..."]:
    """In float32, zeros where `mask` is false."""
    return masked_load(ref, mask).astype(jnp.float32)
