"""Choosing the next token, inside the jitted step.

Each row is drawn by the Gumbel-max trick (Gumbel, 1954): the noise of a token is a hash of
(seed, position, token id), so a row's choice depends neither on its neighbours nor on which
filter found its candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt

from pantheon.engine.model import best_tokens
from pantheon.engine.row_sampling import RowSampling

CANDIDATES: Final = 128
"""Largest `top_k` that is served from a partial selection; beyond it the whole row is searched."""

_COLDEST: Final = 1e-5
_HOTTEST: Final = 1e6
_TINY: Final = float(np.finfo(np.float32).tiny)
_INT32_MIN: Final = -(2**31)
_INT32_MAX: Final = 2**31 - 1


class SamplingBatch(NamedTuple):
    """Sampling parameters of a step, one entry a row.

    Attributes:
        positions: position in the sequence that the sampled token will take.
    """

    temperature: Float[Array, " batch"]
    top_p: Float[Array, " batch"]
    top_k: Int[Array, " batch"]
    seed: UInt[Array, "batch 2"]
    positions: Int[Array, " batch"]


def batch_rows(
    rows: Sequence[RowSampling], positions: Sequence[int], batch: int, vocabulary: int
) -> SamplingBatch:
    """Pack rows into host arrays of `batch` entries; the rest is greedy padding.

    Bounds every number to what its device type holds. A `top_k` that filters nothing becomes
    the vocabulary's size, one of 1 becomes greedy: the best token alone survives it.
    """
    temperature = np.zeros(batch, np.float32)
    top_p = np.ones(batch, np.float32)
    top_k = np.ones(batch, np.int32)
    seed = np.zeros((batch, 2), np.uint32)
    position = np.zeros(batch, np.int32)
    position[: len(rows)] = positions
    for index, row in enumerate(rows):
        greedy = row.temperature <= 0 or row.top_k == 1 or row.top_p <= 0
        temperature[index] = 0 if greedy else min(max(row.temperature, _COLDEST), _HOTTEST)
        top_p[index] = min(max(row.top_p, 0.0), 1.0)
        top_k[index] = row.top_k if 0 < row.top_k < vocabulary else vocabulary
        bits = row.seed % 2**64
        seed[index] = (bits >> 32, bits & 0xFFFFFFFF)
    return SamplingBatch(temperature, top_p, top_k, seed, position)  # type: ignore[arg-type]


def sample(logits: Float[Array, "batch vocabulary"], rows: SamplingBatch) -> Int[Array, " batch"]:
    """Choose a token for each row: temperature, then top-k, then top-p, then a draw."""
    greedy, _ = best_tokens(logits)
    sampled = rows.temperature > 0
    wide = sampled & (rows.top_k > min(CANDIDATES, logits.shape[1]))

    def draw() -> Int[Array, " batch"]:
        narrow_choice = _draw_from_candidates(logits, rows)
        wide_choice = jax.lax.cond(
            jnp.any(wide), lambda: _draw_from_all(logits, rows), lambda: narrow_choice
        )
        return jnp.where(wide, wide_choice, narrow_choice)

    drawn = jax.lax.cond(jnp.any(sampled), draw, lambda: greedy)
    return jnp.where(sampled, drawn, greedy)


def _scale(
    logits: Float[Array, "batch vocabulary"], rows: SamplingBatch
) -> Float[Array, "batch vocabulary"]:
    """Logits below their maximum, divided by the temperature: never NaN, 0 the largest."""
    largest = jnp.max(logits, axis=-1, keepdims=True)
    divisor = jnp.where(rows.temperature > 0, rows.temperature, 1.0)
    return (logits - largest) / divisor[:, None]


def _noise(rows: SamplingBatch, tokens: Int[Array, "batch count"]) -> Float[Array, "batch count"]:
    """Gumbel noise of each token, from (seed, position, token id) alone."""
    shape = tokens.shape
    counters = (
        jnp.broadcast_to(rows.seed[:, 0, None], shape),
        jnp.broadcast_to(rows.seed[:, 1, None], shape),
        jnp.broadcast_to(rows.positions.astype(jnp.uint32)[:, None], shape),
        tokens.astype(jnp.uint32),
    )
    return gumbel(_hash(counters))


def gumbel(bits: UInt[Array, "batch count"]) -> Float[Array, "batch count"]:
    """Standard Gumbel noise from uniform bits, always finite."""
    # 23 bits and the half between two steps: float32 holds it exactly, so neither 0 nor 1 occurs.
    uniform = ((bits >> 9).astype(jnp.float32) + 0.5) * 2.0**-23
    return -jnp.log(-jnp.log(uniform))


_Word = UInt[Array, "batch count"]


def _hash(words: tuple[_Word, _Word, _Word, _Word]) -> UInt[Array, "batch count"]:
    """PCG4D of four words, its first word (Jarzynski and Olano, JCGT 9(3), 2020).

    JAX's own Threefry would do as well, but took most of a step's compilation.
    """

    def mix(x: _Word, y: _Word, z: _Word, w: _Word) -> tuple[_Word, _Word, _Word, _Word]:
        x = x + y * w
        y = y + z * x
        z = z + x * y
        w = w + y * z
        return x, y, z, w

    x, y, z, w = words
    multiplier, increment = jnp.uint32(1664525), jnp.uint32(1013904223)
    x, y, z, w = mix(*(word * multiplier + increment for word in (x, y, z, w)))
    x, _, _, _ = mix(*(word ^ (word >> 16) for word in (x, y, z, w)))
    return x


def _draw_from_candidates(
    logits: Float[Array, "batch vocabulary"], rows: SamplingBatch
) -> Int[Array, " batch"]:
    """Draw among the best `CANDIDATES` tokens, for rows whose top-k is no larger."""
    count = min(CANDIDATES, logits.shape[1])
    scores, tokens = jax.lax.top_k(_scale(logits, rows), count)
    kept = jnp.arange(count) < rows.top_k[:, None]
    probabilities = jax.nn.softmax(jnp.where(kept, scores, -jnp.inf), axis=-1)
    # A token stays while the better ones together have not reached top_p: the best always does.
    before = jnp.cumsum(probabilities, axis=-1) - probabilities
    kept &= before < jnp.maximum(rows.top_p, _TINY)[:, None]
    noisy = jnp.where(kept, scores, -jnp.inf) + _noise(rows, tokens)
    drawn = jnp.argmax(noisy, axis=-1)
    return jnp.take_along_axis(tokens, drawn[:, None], axis=1)[:, 0].astype(jnp.int32)


def _draw_from_all(
    logits: Float[Array, "batch vocabulary"], rows: SamplingBatch
) -> Int[Array, " batch"]:
    """Draw among all tokens, the filters found by bisection instead of a sort.

    Tokens that tie with the last one kept are kept too.
    """
    scores = _scale(logits, rows)
    ordered = _ordered_bits(scores)

    def at_least(threshold: Int[Array, " batch"]) -> Bool[Array, "batch vocabulary"]:
        return ordered >= threshold[:, None]

    k_threshold = _largest(lambda t: jnp.sum(at_least(t), axis=-1) >= rows.top_k, logits.shape[0])
    probabilities = jax.nn.softmax(jnp.where(at_least(k_threshold), scores, -jnp.inf), axis=-1)
    # Rounding can leave the whole sum just below a top_p of 1, which then keeps everything.
    p_threshold = _largest(
        lambda t: jnp.sum(jnp.where(at_least(t), probabilities, 0), axis=-1) >= rows.top_p,
        logits.shape[0],
    )
    kept = at_least(jnp.maximum(k_threshold, p_threshold))
    tokens = jnp.broadcast_to(jnp.arange(logits.shape[1], dtype=jnp.int32), logits.shape)
    noisy = jnp.where(kept, scores, -jnp.inf) + _noise(rows, tokens)
    return jnp.argmax(noisy, axis=-1).astype(jnp.int32)


def _ordered_bits(x: Float[Array, "batch count"]) -> Int[Array, "batch count"]:
    """Integers in the order of the float32 values (sign and magnitude to two's complement)."""
    bits = jax.lax.bitcast_convert_type(x, jnp.int32)
    return jnp.where(bits < 0, bits ^ jnp.int32(0x7FFFFFFF), bits)


def _largest(
    holds: Callable[[Int[Array, " batch"]], Bool[Array, " batch"]], batch: int
) -> Int[Array, " batch"]:
    """The largest int32 threshold for which a falling condition holds, for each row."""
    low = jnp.full((batch,), _INT32_MIN, jnp.int32)
    high = jnp.full((batch,), _INT32_MAX, jnp.int32)

    def halve(
        _: Int[Array, ""], bounds: tuple[Int[Array, " batch"], Int[Array, " batch"]]
    ) -> tuple[Int[Array, " batch"], Int[Array, " batch"]]:
        low, high = bounds
        # The upper middle, without the overflow of low + high.
        middle = (low >> 1) + (high >> 1) + ((low | high) & 1)
        good = holds(middle)
        return jnp.where(good, middle, low), jnp.where(good, high, middle - 1)

    bounds: tuple[Int[Array, " batch"], Int[Array, " batch"]]
    bounds = jax.lax.fori_loop(0, 32, halve, (low, high))
    return bounds[0]
