"""One call for all layers: what stands between them needs neither XLA nor its threads."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from pantheon.engine.kernels.dense_layers.stack import DenseStack
from pantheon.engine.kernels.native import InstructionSet


@dataclass(frozen=True, slots=True)
class DenseShape:
    """What all layers share.

    Attributes:
        inner: rows of the gate.
        neighbours: whether dimensions 2i and 2i + 1 of a head are turned together, or its halves.
        window: how many tokens back a token sees, itself included; 0 for all.
    """

    inner: int
    heads: int
    neighbours: bool
    epsilon: float
    window: int = 0


def dense_layers(
    embeddings: Float[Array, "batch time hidden"],
    turns: Float[Array, "batch time 2 turned"],
    positions: Int[Array, "batch time"],
    pages: Int[Array, "batch time"],
    offsets: Int[Array, "batch time"],
    block_tables: Int[Array, "batch blocks"],
    lengths: Int[Array, " batch"],
    live: Int[Array, " bounds"],
    wanted: Int[Array, " bounds"],
    stack: DenseStack,
    held: Float[Array, "pages layers 2 kv_heads page_size head_dim"],
    shape: DenseShape,
    instruction_set: InstructionSet = InstructionSet.BEST,
) -> tuple[
    Float[Array, "batch time hidden"],
    Float[Array, "pages layers 2 kv_heads page_size head_dim"],
]:
    """Run a step's tokens through all layers and the norm that follows the last.

    Bit for bit what the kernels of the single operations make of it (`row_wise`, `products`,
    `paged_attention`).

    Args:
        turns: see `row_wise.rotation`.
        pages, offsets: see `write_pages`; lengths, block_tables: see `paged_attention`.
        live: of all tokens as one axis, the first that is no padding and one past the last.
        wanted: among them those whose hidden states are asked for; the others come out as zeros.
        held: keys and values of all layers.

    Returns:
        The normed hidden states, and `held` with what was written, in place where it is not used
        afterwards.
    """
    batch, time, hidden = embeddings.shape
    result = jax.ShapeDtypeStruct((batch * time, hidden), embeddings.dtype)  # type: ignore[no-untyped-call]
    written = jax.ShapeDtypeStruct(held.shape, held.dtype)  # type: ignore[no-untyped-call]
    call = jax.ffi.ffi_call(
        "pantheon_dense_layers", [result, written], input_output_aliases={11: 1}
    )
    normed, new_held = call(
        embeddings.reshape(-1, hidden),
        turns,
        positions.astype(jnp.int32),
        pages.astype(jnp.int32),
        offsets.astype(jnp.int32),
        block_tables.astype(jnp.int32),
        lengths.astype(jnp.int32),
        live,
        wanted,
        stack.memory,
        stack.vectors,
        held,
        places=np.array([matrix.offset for matrix in stack.matrices], np.int64),
        formats=np.array([matrix.format for matrix in stack.matrices], np.int64),
        quantised=np.array([matrix.is_quantised for matrix in stack.matrices], np.int64),
        inner=np.int64(shape.inner),
        heads=np.int64(shape.heads),
        has_biases=np.bool_(stack.has_biases),
        has_head_norms=np.bool_(stack.has_head_norms),
        neighbours=np.bool_(shape.neighbours),
        epsilon=np.float32(shape.epsilon),
        scale=np.float32(held.shape[-1] ** -0.5),
        window=np.int64(shape.window),
        instruction_set=np.int64(instruction_set),
    )
    return normed.reshape(batch, time, hidden), new_held
