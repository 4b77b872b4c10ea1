"""The operations, on every instruction set."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from pantheon.engine.kernels.native import InstructionSet


def rms_norm(
    x: Float[Array, "*batch hidden"],
    weight: Float[Array, " hidden"],
    epsilon: float,
    instruction_set: InstructionSet = InstructionSet.BEST,
) -> Float[Array, "*batch hidden"]:
    """`x / sqrt(mean(x^2) + epsilon) * weight` over the last axis, in float32."""
    rows = x.reshape(-1, x.shape[-1])
    found: jax.Array = jax.ffi.ffi_call("pantheon_rms_norm", _shape(rows.shape))(
        rows, weight, epsilon=np.float32(epsilon), instruction_set=np.int64(instruction_set)
    )
    return found.reshape(x.shape)


def silu_product(
    gate: Float[Array, "*batch inner"],
    up: Float[Array, "*batch inner"],
    instruction_set: InstructionSet = InstructionSet.BEST,
) -> Float[Array, "*batch inner"]:
    """`gate * sigmoid(gate) * up`, in float32."""
    rows = (-1, gate.shape[-1])
    flat = gate.reshape(rows)
    found: jax.Array = jax.ffi.ffi_call("pantheon_silu_product", _shape(flat.shape))(
        flat, up.reshape(rows), instruction_set=np.int64(instruction_set)
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
    *,
    neighbours: bool,
    instruction_set: InstructionSet = InstructionSet.BEST,
) -> Float[Array, "batch time heads head_dim"]:
    """The leading dimensions of each head turned by what `rotation` gave for its token."""
    found: jax.Array = jax.ffi.ffi_call("pantheon_rotate", _shape(x.shape))(
        x, by, neighbours=np.bool_(neighbours), instruction_set=np.int64(instruction_set)
    )
    return found


def _shape(shape: tuple[int, ...]) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)  # type: ignore[no-untyped-call]
