"""Products by the native kernels."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from pantheon.engine.kernels.native import InstructionSet
from pantheon.engine.kernels.packed_matmul.interleaved import InterleavedMatrix
from pantheon.engine.precision import Precision


def products(
    rows: Float[Array, "rows inputs"],
    matrices: Sequence[InterleavedMatrix],
    live: Int[Array, " bounds"] | None = None,
    instruction_set: InstructionSet = InstructionSet.BEST,
) -> list[Float[Array, "rows _outputs"]]:
    """The products of the same activations with the transpose of each matrix, in one call.

    A row of a result does not depend on what the other rows hold, bit for bit; nor on how many
    they are, but that codes of `Precision.DEFAULT` may be multiplied in whole numbers for up to 16
    rows, padding included, and in float32 for more.

    Args:
        live: the first row that holds something, and one past the last; nothing is computed of the
            others, whose results are zeros. None computes all.
    """
    if live is None:
        live = jnp.array([0, rows.shape[0]], jnp.int32)
    shapes = [_shape(rows.shape[0], matrix.rows) for matrix in matrices]
    call = jax.ffi.ffi_call("pantheon_multiply", shapes)
    return list(
        call(
            rows,
            live,
            *(matrix.data for matrix in matrices),
            formats=np.array([matrix.format.number for matrix in matrices], np.int64),
            quantised=np.array([one.precision is Precision.DEFAULT for one in matrices], np.int64),
            instruction_set=np.int64(instruction_set),
        )
    )


def taken_rows(
    matrix: InterleavedMatrix,
    indices: Int[Array, " count"],
    instruction_set: InstructionSet = InstructionSet.BEST,
) -> Float[Array, "count inputs"]:
    """Some rows in float32. An index that is no row fails the step."""
    shape = _shape(indices.shape[0], matrix.columns)
    found: jax.Array = jax.ffi.ffi_call("pantheon_take_rows", shape)(
        matrix.data,
        indices.astype(jnp.int32),
        format=np.int64(matrix.format.number),
        rows=np.int64(matrix.rows),
        instruction_set=np.int64(instruction_set),
    )
    return found


def _shape(rows: int, columns: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((rows, columns), jnp.float32)  # type: ignore[no-untyped-call]
