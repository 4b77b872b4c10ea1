"""The operations on a GPU, in Pallas.

XLA makes more than one pass of most of them, and adds up a norm's squares in an order that the
number of rows may change. Arguments and results are those of the native kernels in `native.py`;
computed in float32, kept in the type of what came in. No sum goes over more than one row, so that a
row is the same in every batch.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jaxtyping import Array, Bool, Float, Int

from pantheon.engine.kernels.pallas import (
    Ref,
    launch,
    masked_load,
    masked_store,
    power_of_two,
    span,
)

_SILU_COLUMNS = 1024
_HEADS = 8


def rms_norm(
    x: Float[Array, "*tokens hidden"],
    weight: Float[Array, " hidden"],
    epsilon: float,
    live: Int[Array, " bounds"] | None = None,
    *,
    interpret: bool = False,
) -> Float[Array, "*tokens hidden"]:
    """The root mean square norm over the last axis; a row a program.

    Args:
        live: with it the first two axes are those of the tokens; those between them and the last
            are parts of a token.
        interpret: see `launch`.
    """
    hidden = x.shape[-1]
    tokens = math.prod(x.shape[:-1] if live is None else x.shape[:2])
    count = math.prod(x.shape[:-1])
    parts = count // tokens
    columns = power_of_two(hidden)

    def rms_norm_row(x: Ref, weight: Ref, live: Ref, normed: Ref) -> None:
        row = pl.program_id(0)
        column = span(0, columns)
        has = column < hidden
        found = _read(x.at[row, column], has & _is_live(live, row // parts))
        factor = _read(weight.at[column], has)
        scaled = _normed(found, factor, hidden, epsilon)
        masked_store(normed.at[row, column], scaled.astype(normed.dtype), has)

    rows = jax.ShapeDtypeStruct((count, hidden), x.dtype)  # type: ignore[no-untyped-call]
    (normed,) = launch(
        rms_norm_row,
        (x.reshape(rows.shape), weight, _bounds(live, tokens)),
        [rows],
        grid=(count,),
        warps=_warps(columns),
        stages=1,
        interpret=interpret,
    )
    return normed.reshape(x.shape)


def add_rms_norm(
    x: Float[Array, "*tokens hidden"],
    delta: Float[Array, "*tokens hidden"],
    weight: Float[Array, " hidden"],
    epsilon: float,
    live: Int[Array, " bounds"] | None = None,
    *,
    interpret: bool = False,
) -> tuple[Float[Array, "*tokens hidden"], Float[Array, "*tokens hidden"]]:
    """`x + delta`, and the root mean square norm of that; a row a program.

    XLA adds and sums in one pass, and reads what it has written in a second for the norm.

    Args:
        interpret: see `launch`.
    """
    hidden = x.shape[-1]
    tokens = math.prod(x.shape[:-1])
    columns = power_of_two(hidden)

    def add_rms_norm_row(
        x: Ref, delta: Ref, weight: Ref, live: Ref, total: Ref, normed: Ref
    ) -> None:
        row = pl.program_id(0)
        column = span(0, columns)
        has = column < hidden
        is_live = has & _is_live(live, row)
        place = (row, column)
        # As it is kept: the norm is that of what the next layers see.
        added = _read(x.at[place], is_live) + _read(delta.at[place], is_live)
        kept = added.astype(total.dtype)
        masked_store(total.at[place], kept, has)
        factor = _read(weight.at[column], has)
        scaled = _normed(kept.astype(jnp.float32), factor, hidden, epsilon)
        masked_store(normed.at[place], scaled.astype(normed.dtype), has)

    rows = jax.ShapeDtypeStruct((tokens, hidden), x.dtype)  # type: ignore[no-untyped-call]
    total, normed = launch(
        add_rms_norm_row,
        (x.reshape(rows.shape), delta.reshape(rows.shape), weight, _bounds(live, tokens)),
        [rows, rows],
        grid=(tokens,),
        warps=_warps(columns),
        stages=1,
        interpret=interpret,
    )
    return total.reshape(x.shape), normed.reshape(x.shape)


def silu_product(
    gate: Float[Array, "*tokens inner"],
    up: Float[Array, "*tokens inner"],
    live: Int[Array, " bounds"] | None = None,
    *,
    interpret: bool = False,
) -> Float[Array, "*tokens inner"]:
    """`gate * sigmoid(gate) * up`.

    Args:
        interpret: see `launch`.
    """
    inner = gate.shape[-1]
    tokens = math.prod(gate.shape[:-1])
    columns = min(_SILU_COLUMNS, power_of_two(inner))

    def silu_product_tile(gate: Ref, up: Ref, live: Ref, product: Ref) -> None:
        column, row = span(pl.program_id(0) * columns, columns), pl.program_id(1)
        has = column < inner
        is_live = has & _is_live(live, row)
        place = (row, column)
        factor = _read(gate.at[place], is_live)
        found = factor / (1.0 + jnp.exp(-factor)) * _read(up.at[place], is_live)
        masked_store(product.at[place], found.astype(product.dtype), has)

    rows = jax.ShapeDtypeStruct((tokens, inner), gate.dtype)  # type: ignore[no-untyped-call]
    (product,) = launch(
        silu_product_tile,
        (gate.reshape(rows.shape), up.reshape(rows.shape), _bounds(live, tokens)),
        [rows],
        grid=(-(-inner // columns), tokens),
        warps=4,
        stages=1,
        interpret=interpret,
    )
    return product.reshape(gate.shape)


def rotate(
    x: Float[Array, "batch time heads head_dim"],
    by: Float[Array, "batch time 2 turned"],
    live: Int[Array, " bounds"] | None = None,
    *,
    neighbours: bool,
    interpret: bool = False,
) -> Float[Array, "batch time heads head_dim"]:
    """The leading dimensions of each head turned by what `rotation` gave for its token.

    Both dimensions of a pair are read where they are, which in XLA takes a copy of all of them.

    Args:
        neighbours: whether dimensions 2i and 2i + 1 are a pair, or the halves are.
        interpret: see `launch`.
    """
    batch, time, heads, head_dim = x.shape
    tokens, turned = batch * time, by.shape[-1]
    if turned % 2 or head_dim % 2 or turned > head_dim:
        raise ValueError(f"rotate: expected an even part of {head_dim} dimensions, got {turned}")
    pairs, rest = turned // 2, (head_dim - turned) // 2
    # The dimensions of a pair are neighbours along an axis of their own, or not.
    split = (head_dim // 2, 2) if neighbours else (head_dim,)

    def rotate_heads(x: Ref, by: Ref, live: Ref, output: Ref) -> None:
        head = span(pl.program_id(0) * _HEADS, _HEADS)[:, None]
        token = pl.program_id(1)
        is_live = _is_live(live, token)

        def places(pair: Int[Array, " pairs"], apart: int) -> list[tuple[Any, ...]]:
            """Where both dimensions of pairs stand, so many apart if they are no neighbours."""
            if neighbours:
                return [(pair, np.int32(which)) for which in (0, 1)]
            return [(pair + which * apart,) for which in (0, 1)]

        def at_heads(place: tuple[Any, ...]) -> tuple[Any, ...]:
            return (token, head, place[0][None, :], *place[1:])

        pair = span(0, power_of_two(pairs))
        mask = (head < heads) & (pair < pairs)[None, :]
        where = places(pair, pairs)
        numbers = [_read(x.at[at_heads(place)], mask & is_live) for place in where]
        for place, own, partner in zip(where, numbers, reversed(numbers), strict=True):
            cosine, sine = (
                _read(by.at[token, np.int32(kind), *place], pair < pairs) for kind in (0, 1)
            )
            found = own * cosine[None, :] + partner * sine[None, :]
            # Times zero, what is no number would still be none.
            found = jnp.where(is_live, found, 0.0)
            masked_store(output.at[at_heads(place)], found.astype(output.dtype), mask)
        if rest:
            other = span(0, power_of_two(rest))
            mask = (head < heads) & (other < rest)[None, :]
            for place in places(other + (pairs if neighbours else turned), rest):
                passed = masked_load(x.at[at_heads(place)], mask & is_live)
                masked_store(output.at[at_heads(place)], passed, mask)

    shape = (tokens, heads, *split)
    (output,) = launch(
        rotate_heads,
        (x.reshape(shape), by.reshape(tokens, 2, -1, *split[1:]), _bounds(live, tokens)),
        [jax.ShapeDtypeStruct(shape, x.dtype)],  # type: ignore[no-untyped-call]
        grid=(-(-heads // _HEADS), tokens),
        warps=4,
        stages=1,
        interpret=interpret,
    )
    return output.reshape(x.shape)


def _normed(
    row: Float[Array, " columns"], factor: Float[Array, " columns"], hidden: int, epsilon: float
) -> Float[Array, " columns"]:
    """A row, zeros past its end, through the norm."""
    mean_square = jnp.sum(row * row) / hidden
    return row * jax.lax.rsqrt(mean_square + epsilon) * factor


def _warps(columns: int) -> int:
    return 4 if columns <= 4096 else 8


def _bounds(live: Int[Array, " bounds"] | None, tokens: int) -> Int[Array, " bounds"]:
    return jnp.array([0, tokens], jnp.int32) if live is None else live.astype(jnp.int32)


def _is_live(live: Ref, token: Int[Array, ""]) -> Bool[Array, ""]:
    inside: jax.Array = (live[0] <= token) & (token < live[1])
    return inside


def _read(ref: Ref, mask: Bool[Array, ...]) -> Float[Array, ...]:
    """In float32, zeros where `mask` is false."""
    return masked_load(ref, mask).astype(jnp.float32)
