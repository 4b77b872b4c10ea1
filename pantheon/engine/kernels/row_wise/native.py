"""The operations, on every instruction set."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from pantheon.engine.kernels.native import InstructionSet


def rms_norm(
    x: Float[Array, "*tokens hidden"],
    weight: Float[Array, " hidden"],
    epsilon: float,
    live: Int[Array, " bounds"] | None = None,
    instruction_set: InstructionSet = InstructionSet.BEST,
) -> Float[Array, "*tokens hidden"]:
    """`x / sqrt(mean(x^2) + epsilon) * weight` over the last axis, in float32.

    Args:
        live: with it the first two axes are those of the tokens; those between them and the last
            are parts of a token.
    """
    tokens = math.prod(x.shape[:-1] if live is None else x.shape[:2])
    parts = x.reshape(tokens, -1, x.shape[-1])
    found: jax.Array = jax.ffi.ffi_call("pantheon_rms_norm", _shape(parts.shape))(
        parts,
        weight,
        _bounds(live, tokens),
        epsilon=np.float32(epsilon),
        instruction_set=np.int64(instruction_set),
    )
    return found.reshape(x.shape)


def add_rms_norm(
    x: Float[Array, "*tokens hidden"],
    delta: Float[Array, "*tokens hidden"],
    weight: Float[Array, " hidden"],
    epsilon: float,
    live: Int[Array, " bounds"] | None = None,
    instruction_set: InstructionSet = InstructionSet.BEST,
) -> tuple[Float[Array, "*tokens hidden"], Float[Array, "*tokens hidden"]]:
    """`x + delta`, and the `rms_norm` of that."""
    rows = (math.prod(x.shape[:-1]), x.shape[-1])
    total, normed = jax.ffi.ffi_call("pantheon_add_rms_norm", [_shape(rows)] * 2)(
        x.reshape(rows),
        delta.reshape(rows),
        weight,
        _bounds(live, rows[0]),
        epsilon=np.float32(epsilon),
        instruction_set=np.int64(instruction_set),
    )
    return total.reshape(x.shape), normed.reshape(x.shape)


def silu_product(
    gate: Float[Array, "*tokens inner"],
    up: Float[Array, "*tokens inner"],
    live: Int[Array, " bounds"] | None = None,
    instruction_set: InstructionSet = InstructionSet.BEST,
) -> Float[Array, "*tokens inner"]:
    """`gate * sigmoid(gate) * up`, in float32."""
    rows = (math.prod(gate.shape[:-1]), gate.shape[-1])
    found: jax.Array = jax.ffi.ffi_call("pantheon_silu_product", _shape(rows))(
        gate.reshape(rows),
        up.reshape(rows),
        _bounds(live, rows[0]),
        instruction_set=np.int64(instruction_set),
    )
    return found.reshape(gate.shape)


def rotation(
    positions: Int[Array, "batch time"],
    frequencies: Float[Array, " pairs"],
    *,
    magnitude: float,
    neighbours: bool,
) -> Float[Array, "batch time 2 turned"]:
    """Cosines and sines of `position * frequency` for each turned dimension, times `magnitude`.

    The sine of the first dimension of a pair is negative: turned, a dimension is itself times its
    cosine plus its partner times its sine.

    Args:
        neighbours: whether dimensions 2i and 2i + 1 are a pair, or the halves are.
    """
    found: jax.Array = jax.ffi.ffi_call(
        "pantheon_rotation", _shape((*positions.shape, 2, 2 * frequencies.shape[0]))
    )(
        positions.astype(jnp.int32),
        frequencies,
        magnitude=np.float32(magnitude),
        neighbours=np.bool_(neighbours),
    )
    return found


def rotate(
    x: Float[Array, "batch time heads head_dim"],
    by: Float[Array, "batch time 2 turned"],
    live: Int[Array, " bounds"] | None = None,
    *,
    neighbours: bool,
    instruction_set: InstructionSet = InstructionSet.BEST,
) -> Float[Array, "batch time heads head_dim"]:
    """The leading dimensions of each head turned by what `rotation` gave for its token."""
    found: jax.Array = jax.ffi.ffi_call("pantheon_rotate", _shape(x.shape))(
        x,
        by,
        _bounds(live, x.shape[0] * x.shape[1]),
        neighbours=np.bool_(neighbours),
        instruction_set=np.int64(instruction_set),
    )
    return found


def largest(
    x: Float[Array, "batch columns"], instruction_set: InstructionSet = InstructionSet.BEST
) -> tuple[Int[Array, " batch"], Bool[Array, " batch"]]:
    """The first place of the largest number of each row, and whether that number is finite.

    Where something is no number that is false, and the place means nothing.
    """
    batch = x.shape[0]
    results = [jax.ShapeDtypeStruct((batch,), dtype) for dtype in (jnp.int32, jnp.bool_)]  # type: ignore[no-untyped-call]
    places, finite = jax.ffi.ffi_call("pantheon_largest", results)(
        x, instruction_set=np.int64(instruction_set)
    )
    return places, finite


def _bounds(live: Int[Array, " bounds"] | None, tokens: int) -> Int[Array, " bounds"]:
    return jnp.array([0, tokens], jnp.int32) if live is None else live


def _shape(shape: tuple[int, ...]) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)  # type: ignore[no-untyped-call]
