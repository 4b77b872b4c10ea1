"""One call for all layers: what stands between them needs neither XLA nor its threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from pantheon.engine.kernels.native import InstructionSet
from pantheon.engine.kernels.packed_matmul import InterleavedMatrix
from pantheon.engine.precision import Precision

_STEP_BUFFERS = 10
"""Before those of the layers."""


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
    kv_heads: int
    head_dim: int
    neighbours: bool
    epsilon: float
    window: int = 0


class DenseLayer(NamedTuple):
    """The weights of one layer, and its pages.

    Attributes:
        next_norm: weight of the norm before the next layer, or before the head.
        biases: of query, key and value; none in an architecture without them.
        head_norms: weights of the norms over each head of query and key; none likewise.
    """

    query: InterleavedMatrix
    key: InterleavedMatrix
    value: InterleavedMatrix
    output: InterleavedMatrix
    gate: InterleavedMatrix
    up: InterleavedMatrix
    down: InterleavedMatrix
    feed_forward_norm: Float[Array, " hidden"]
    next_norm: Float[Array, " hidden"]
    biases: tuple[Float[Array, " _rows"], ...]
    head_norms: tuple[Float[Array, " head_dim"], ...]
    key_pages: Float[Array, "pages kv_heads page_size head_dim"]
    value_pages: Float[Array, "pages kv_heads page_size head_dim"]

    @property
    def matrices(self) -> tuple[InterleavedMatrix, ...]:
        """In the order in which the call has them."""
        return self.query, self.key, self.value, self.output, self.gate, self.up, self.down

    @property
    def buffers(self) -> tuple[jax.Array, ...]:
        """All of it, in the order in which the call has it."""
        norms = (self.feed_forward_norm, self.next_norm)
        packed = (matrix.data for matrix in self.matrices)
        pages = (self.key_pages, self.value_pages)
        return *packed, *norms, *self.biases, *self.head_norms, *pages


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
    first_norm: Float[Array, " hidden"],
    layers: Sequence[DenseLayer],
    shape: DenseShape,
    instruction_set: InstructionSet = InstructionSet.BEST,
) -> tuple[
    Float[Array, "batch time hidden"],
    list[tuple[Float[Array, "_ _ _ _"], Float[Array, "_ _ _ _"]]],
]:
    """Run a step's tokens through all layers and the norm that follows the last.

    Bit for bit what the kernels of the single operations make of it (`row_wise`, `products`,
    `paged_attention`).

    Args:
        turns: see `row_wise.rotation`.
        pages, offsets: see `write_pages`; lengths, block_tables: see `paged_attention`.
        live: of all tokens as one axis, the first that is no padding and one past the last.
        wanted: among them those whose hidden states are asked for; the others come out as zeros.
        first_norm: weight of the norm before the first layer.

    Returns:
        The normed hidden states, and the written pages of each layer, in place where they are not
        used afterwards.
    """
    batch, time, hidden = embeddings.shape
    written = [page for layer in layers for page in (layer.key_pages, layer.value_pages)]
    buffers = [buffer for layer in layers for buffer in layer.buffers]
    ends = accumulate((len(layer.buffers) for layer in layers), initial=_STEP_BUFFERS)
    places = [end + pages for end in list(ends)[1:] for pages in (-2, -1)]
    call = jax.ffi.ffi_call(
        "pantheon_dense_layers",
        [_shape((batch * time, hidden), embeddings.dtype)]
        + [_shape(page.shape, page.dtype) for page in written],
        input_output_aliases={place: result for result, place in enumerate(places, start=1)},
    )
    matrices = [matrix for layer in layers for matrix in layer.matrices]
    normed, *new_pages = call(
        embeddings.reshape(-1, hidden),
        turns,
        positions.astype(jnp.int32),
        pages.astype(jnp.int32),
        offsets.astype(jnp.int32),
        block_tables.astype(jnp.int32),
        lengths.astype(jnp.int32),
        live,
        wanted,
        first_norm,
        *buffers,
        formats=np.array([matrix.format.number for matrix in matrices], np.int64),
        quantised=np.array([one.precision is Precision.DEFAULT for one in matrices], np.int64),
        inner=np.int64(shape.inner),
        heads=np.int64(shape.heads),
        kv_heads=np.int64(shape.kv_heads),
        head_dim=np.int64(shape.head_dim),
        has_biases=np.bool_(layers[0].biases != ()),
        has_head_norms=np.bool_(layers[0].head_norms != ()),
        neighbours=np.bool_(shape.neighbours),
        epsilon=np.float32(shape.epsilon),
        scale=np.float32(shape.head_dim**-0.5),
        window=np.int64(shape.window),
        instruction_set=np.int64(instruction_set),
    )
    pairs = zip(new_pages[::2], new_pages[1::2], strict=True)
    return normed.reshape(batch, time, hidden), list(pairs)


def _shape(shape: tuple[int, ...], dtype: jnp.dtype) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]
