"""The algorithm of `chunked` in Pallas, by two kernels.

The first solves the triangular system of each chunk, all chunks at once, since it needs no state:
it leaves the inverse of the system's matrix and the scores of the queries. The second runs some
columns of the state through the chunks. Between chunks they stand where the result will stand, in
the processor's cache: in registers they would leave no room for products.

The inverse is made by doubling. Where the blocks A and C on the diagonal of `[[A, 0], [B, C]]` are
inverted, what stands below them is `-C^-1 B A^-1`: a level is two products. All that is ever
computed are inverses of blocks, and an entry of those is what one token's value still adds to a
later change: with keys of length one, no more than one. So nothing cancels, which a series of
powers of the matrix would where keys repeat.

A product of more than 32 on a side does not fit into the registers three times over, which is what
it takes to be as exact as float32 (`float32_dot`). So chunks are of 32 tokens, which costs no more
than 64: what a chunk does to the state grows with its tokens, and what they do to each other with
their square.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array, Bool, Float, Int

from pantheon.engine.kernels.pallas import (
    Ref,
    barrier,
    float32_dot,
    launch,
    masked_load,
    masked_store,
    power_of_two,
    span,
)

CHUNK: Final = 32
"""Tokens of a chunk. Prompts are cut between chunks."""

_LEVELS: Final = CHUNK.bit_length() - 1
"""How often blocks of one token are doubled until a chunk is one block."""

_Squares = tuple[Float[Array, "chunk chunk"], Float[Array, "chunk chunk"]]
_Values = tuple[Float[Array, "chunk values"], Float[Array, "chunk values"]]


@dataclass(frozen=True, slots=True)
class ChunkTiles:
    """How prefill is laid out on a GPU.

    Attributes:
        keys: key dimensions of a product, a power of two from 16 on.
        values: value dimensions of a program of the second kernel, likewise.
        solve_warps, warps: of a program of the first and of the second; see `launch`.
    """

    keys: int = 32
    values: int = 32
    solve_warps: int = 2
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
    batch, time, heads, key_dims = query.shape
    value_dims = value.shape[-1]
    tiles = tiles or ChunkTiles()
    chunks = -(-time // CHUNK)
    keys = min(tiles.keys, power_of_two(key_dims))
    values = min(tiles.values, power_of_two(value_dims))
    blocks = -(-key_dims // keys)
    real = valid.astype(jnp.int32)
    square = jax.ShapeDtypeStruct((batch, heads, chunks, CHUNK, CHUNK), jnp.float32)  # type: ignore[no-untyped-call]
    dot = partial(float32_dot, interpret=interpret)

    def gated_delta_solve(
        query: Ref,
        key: Ref,
        log_decay: Ref,
        strength: Ref,
        valid: Ref,
        inverses: Ref,
        scores: Ref,
    ) -> None:
        chunk, head, row = pl.program_id(0), pl.program_id(1), pl.program_id(2)
        token = span(chunk * CHUNK, CHUNK)
        is_real = _real(valid, row, token, time)

        @pl.when(_any(is_real))
        def _() -> None:
            def multiplied(block: Int[Array, ""], sums: _Squares) -> _Squares:
                key_dim = span(block * keys, keys)[None, :]
                place = (row, token[:, None], head, key_dim)
                mask = is_real[:, None] & (key_dim < key_dims)
                held = _read(key.at[place], mask)
                asked = _read(query.at[place], mask)
                return sums[0] + dot(held, held, (1, 1)), sums[1] + dot(asked, held, (1, 1))

            nothing = jnp.zeros((CHUNK, CHUNK), jnp.float32)
            products, asked = jax.lax.fori_loop(0, blocks, multiplied, (nothing, nothing))
            total = _running(_read(log_decay.at[row, token, head], is_real))
            factor = _read(strength.at[row, token, head], is_real)
            later, earlier = _places()
            # Above the diagonal the exponent is positive and may overflow; nothing there is used.
            since = jnp.where(later >= earlier, total[:, None] - total[None, :], -jnp.inf)
            between = jnp.exp(since)
            system = jnp.where(later > earlier, products * between * factor[:, None], 0.0)
            in_square = (row, head, chunk, pl.ds(0, CHUNK), pl.ds(0, CHUNK))
            inverses[in_square] = _inverse(system, interpret=interpret) * factor[None, :]
            scores[in_square] = asked * between

    def gated_delta_chunks(
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
        head, row = pl.program_id(1), pl.program_id(2)
        value_dim = span(pl.program_id(0) * values, values)[None, :]
        has_value = value_dim < value_dims

        def in_state(block: Int[Array, ""]) -> tuple[tuple[Any, ...], Bool[Array, "keys values"]]:
            key_dim = span(block * keys, keys)[:, None]
            return (row, head, key_dim, value_dim), (key_dim < key_dims) & has_value

        def copy(block: Int[Array, ""], _: None) -> None:
            place, mask = in_state(block)
            masked_store(following.at[place], masked_load(state.at[place], mask), mask)

        def add_chunk(chunk: Int[Array, ""], _: None) -> None:
            token = span(chunk * CHUNK, CHUNK)
            in_square = (row, head, chunk, pl.ds(0, CHUNK), pl.ds(0, CHUNK))
            in_values = (row, token[:, None], head, value_dim)
            is_real = _real(valid, row, token, time)

            def read(ref: Ref, block: Int[Array, ""]) -> Float[Array, "chunk keys"]:
                key_dim = span(block * keys, keys)[None, :]
                mask = is_real[:, None] & (key_dim < key_dims)
                return _read(ref.at[row, token[:, None], head, key_dim], mask)

            def store(output: Float[Array, "chunk values"]) -> None:
                mask = (token < time)[:, None] & has_value
                masked_store(mixed.at[in_values], output.astype(mixed.dtype), mask)

            @pl.when(_any(is_real))
            def add() -> None:
                def multiplied(block: Int[Array, ""], sums: _Values) -> _Values:
                    place, mask = in_state(block)
                    held = masked_load(following.at[place], mask)
                    found = sums[0] + dot(read(key, block), held)
                    return found, sums[1] + dot(read(query, block), held)

                def update(block: Int[Array, ""], _: None) -> None:
                    place, mask = in_state(block)
                    held = masked_load(following.at[place], mask) * jnp.exp(until_end)
                    new = held + dot(read(key, block), kept, (0, 0))
                    masked_store(following.at[place], new, mask)

                nothing = jnp.zeros((CHUNK, values), jnp.float32)
                found, output = jax.lax.fori_loop(0, blocks, multiplied, (nothing, nothing))
                decay = _read(log_decay.at[row, token, head], is_real)
                total, until_end = _running(decay), jnp.sum(decay)
                since_start = jnp.exp(total)[:, None]
                wanted = _read(value.at[in_values], is_real[:, None] & has_value)
                changes = dot(inverses[in_square], wanted - found * since_start)
                store(output * since_start + dot(scores[in_square], changes))
                kept = changes * jnp.exp(until_end - total)[:, None]
                barrier(interpret=interpret)
                jax.lax.fori_loop(0, blocks, update, None)
                barrier(interpret=interpret)

            @pl.when(~_any(is_real))
            def pass_over() -> None:
                store(jnp.zeros((CHUNK, values), jnp.float32))

        jax.lax.fori_loop(0, blocks, copy, None)
        barrier(interpret=interpret)
        jax.lax.fori_loop(0, chunks, add_chunk, None)

    inverses, scores = launch(
        gated_delta_solve,
        (query, key, log_decay, strength, real),
        [square, square],
        grid=(chunks, heads, batch),
        warps=tiles.solve_warps,
        stages=1,
        interpret=interpret,
    )
    mixed, following = launch(
        gated_delta_chunks,
        (query, key, value, log_decay, real, inverses, scores, state),
        [
            jax.ShapeDtypeStruct(value.shape, value.dtype),  # type: ignore[no-untyped-call]
            jax.ShapeDtypeStruct(state.shape, state.dtype),  # type: ignore[no-untyped-call]
        ],
        grid=(-(-value_dims // values), heads, batch),
        warps=tiles.warps,
        stages=1,
        interpret=interpret,
    )
    return mixed, following


def _inverse(
    system: Float[Array, "chunk chunk"], *, interpret: bool
) -> Float[Array, "chunk chunk"]:
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
    valid: Ref, row: Int[Array, ""], token: Int[Array, " chunk"], time: int
) -> Bool[Array, " chunk"]:
    """Which tokens of a chunk are valid."""
    return masked_load(valid.at[row, token], token < time) != 0


def _any(real: Bool[Array, " chunk"]) -> Bool[Array, ""]:
    return jnp.max(real.astype(jnp.int32)) > 0


def _read(ref: Ref, mask: Bool[Array, ...]) -> Float[Array, ...]:
    """In float32, zeros where `mask` is false."""
    return masked_load(ref, mask).astype(jnp.float32)
