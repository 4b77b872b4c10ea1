"""Products on GPUs: of raw blocks by the Triton kernels, of other weights in plain XLA.

No product is a loop that the host drives, as that of `product_by_pieces` would be: a step is then
captured whole.

What is rounded, and why it stays close to float32: rows of a decode step are multiplied in float32,
for there the weights' way from memory is what takes time. More rows take the tensor cores, in
float16 and not in bfloat16: 11 bits instead of 8. Its range is made to fit by a power of two for
each row, which is exact and undone in the sums. `Precision.FLOAT32` multiplies float32.
"""

from __future__ import annotations

from typing import Final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Int

from pantheon.engine.kernels.expert_matmul import ExpertPairs
from pantheon.engine.kernels.implementation import Implementation
from pantheon.engine.model.packed import PackedMatrix, RawMatrix, split_rows, values_of
from pantheon.engine.precision import Precision

FEW_ROWS: Final = 8
"""Those of the largest decode step, up to which the kernel multiplies in float32."""

PIECE_BYTES: Final = 128 << 20
"""Of float32 that a matrix becomes at once where XLA unpacks it."""

_TOP_EXPONENT: Final = 14
"""Of the largest number of a row in float16, which ends at 2^16."""

_LEAST_EXPONENT: Final = -100
"""Of what a row is divided by: 2 to more than 126 is no factor that float32 has."""

_HIGHEST: Final = jax.lax.Precision.HIGHEST


def gpu_product(
    rows: Float32[Array, "rows inputs"],
    weight: Float[Array, "outputs inputs"] | PackedMatrix,
    implementation: Implementation,
) -> Float32[Array, "rows outputs"]:
    """Rows times the transpose of a matrix."""
    if not isinstance(weight, RawMatrix) or implementation.is_interpreted:
        return _in_xla(rows, weight)
    # Imported here: only an installation for GPUs has Triton.
    from pantheon.engine.kernels.packed_matmul.triton_product import raw_product

    name = weight.type.name
    if weight.precision is Precision.FLOAT32 or rows.shape[0] <= FEW_ROWS:
        return raw_product(rows, weight.data, name)
    scaled, exponents = _in_float16(rows)
    return jnp.ldexp(raw_product(scaled, weight.data, name), exponents)


def gpu_expert_product(
    x: Float32[Array, "inputs columns"],
    stack: RawMatrix,
    pairs: ExpertPairs,
    sources: Int[Array, " pairs"],
    implementation: Implementation,
    *,
    few: bool,
) -> Float32[Array, "pairs outputs"]:
    """What `expert_matmul.reference` computes.

    Args:
        few: whether tokens are those of a decode step.
    """
    if implementation.is_interpreted:
        return _grouped_in_xla(x, stack, pairs, sources)
    # Imported here: only an installation for GPUs has Triton.
    from pantheon.engine.kernels.expert_matmul.triton_product import FEW, MANY, expert_product

    tiles, name = FEW if few else MANY, stack.type.name
    if stack.precision is Precision.FLOAT32:
        return expert_product(x, stack.data, name, pairs, sources, tiles)
    # Of decode steps too: tiles of one expert take the tensor cores whatever their number.
    scaled, exponents = _in_float16(x)
    found = expert_product(scaled, stack.data, name, pairs, sources, tiles)
    return jnp.ldexp(found, exponents[sources])


def _in_float16(
    rows: Float32[Array, "rows inputs"],
) -> tuple[Float[Array, "rows inputs"], Int[Array, "rows 1"]]:
    """Rows divided by a power of two each, which is 2 to the exponents given.

    A number is off by at most 1 / 2048 of itself, or 2^-38 of the largest of its row, or 2^-124.
    """
    _, exponents = jnp.frexp(jnp.max(jnp.abs(rows), axis=1, keepdims=True))
    exponents = jnp.maximum(exponents - _TOP_EXPONENT, _LEAST_EXPONENT)
    return jnp.ldexp(rows, -exponents).astype(jnp.float16), exponents


def _in_xla(
    rows: Float32[Array, "rows inputs"], weight: Float[Array, "outputs inputs"] | PackedMatrix
) -> Float32[Array, "rows outputs"]:
    if not isinstance(weight, PackedMatrix) and weight.dtype == jnp.bfloat16:
        return _by_parts(rows, weight)

    is_float32 = not isinstance(weight, PackedMatrix) and weight.dtype == jnp.float32
    outputs, inputs = weight.shape
    at_once = outputs if is_float32 else max(PIECE_BYTES // (4 * inputs), 1)
    sizes = [min(at_once, outputs - first) for first in range(0, outputs, at_once)]
    made: list[Float[Array, "rows _outputs"]] = []
    for piece in split_rows(weight, tuple(sizes)):
        # The next one is unpacked when the one before has been multiplied.
        piece, made = jax.lax.optimization_barrier((piece, made))  # type: ignore[no-untyped-call]
        made.append(jnp.einsum("ni,oi->no", rows, values_of(piece), precision=_HIGHEST))
    return jnp.concatenate(made, axis=1)


def _by_parts(
    rows: Float32[Array, "rows inputs"], weight: Float[Array, "outputs inputs"]
) -> Float32[Array, "rows outputs"]:
    """Float32 rows as the sum of three of bfloat16: the weights are read once and as they are."""
    parts, left = [], rows
    for _ in range(3):
        parts.append(left.astype(jnp.bfloat16))
        left = left - parts[-1].astype(jnp.float32)
    found = jnp.einsum(
        "ni,oi->no", jnp.concatenate(parts), weight, preferred_element_type=jnp.float32
    )
    first, second, third = jnp.split(found, 3)
    return first + (second + third)


def _grouped_in_xla(
    x: Float32[Array, "inputs columns"],
    stack: RawMatrix,
    pairs: ExpertPairs,
    sources: Int[Array, " pairs"],
) -> Float32[Array, "pairs outputs"]:
    found = jax.lax.ragged_dot(
        x[sources], jnp.swapaxes(values_of(stack), 1, 2), pairs.counts, precision=_HIGHEST
    )
    has_expert = jnp.arange(sources.shape[0]) < jnp.sum(pairs.counts)
    return jnp.where(has_expert[:, None], found, 0)
