"""Matrices of every type with ordinary values, and those values by ggml's own conversion."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from pantheon.engine.gguf import TensorType, block_layout, unpack_blocks
from pantheon.engine.kernels.packed_matmul import InterleavedMatrix, format_of, interleaved
from pantheon.engine.model.dequantize.int8 import quantise_rows
from pantheon.engine.precision import Precision
from tests.golden import golden_arrays

PLAIN = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype(jnp.bfloat16)}
BLOCKS = (
    *("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"),
    *("IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0", "MXFP4", "NVFP4"),
    *("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"),
)
SOURCES = (*PLAIN, *BLOCKS, "INT8")


@dataclass(frozen=True, slots=True)
class Sample:
    """A matrix as a file packs it.

    Attributes:
        packed: uint8 [rows, bytes of a row].
        values: float32 [rows, columns], by the `gguf` package.
    """

    source: str
    packed: NDArray[np.uint8]
    values: NDArray[np.float32]

    def matrix(self, precision: Precision = Precision.DEFAULT) -> InterleavedMatrix:
        rows, columns = self.values.shape
        format = format_of(self.source, columns)
        assert format is not None, f"{self.source} has a format for {columns} columns"
        data = interleaved(self.source, self.packed, columns)
        return InterleavedMatrix(jnp.asarray(data), format, rows, columns, precision)


def sample(source: str, rows: int, columns: int, seed: int = 0) -> Sample:
    """Golden blocks in random order; random numbers for types that have none."""
    drawn = np.random.default_rng(seed)
    if source in PLAIN:
        data = drawn.standard_normal((rows, columns), np.float32).astype(PLAIN[source])
        return Sample(source, data.view(np.uint8), data.astype(np.float32))
    if source == "INT8":
        packed = quantise_rows(drawn.standard_normal((rows, columns), np.float32))
        codes = packed[:, :columns].view(np.int8).reshape(rows, -1, 64)
        scales = packed[:, columns:].view("<f4")[..., None]
        return Sample(source, packed, (codes * scales).reshape(rows, columns))
    golden = golden_arrays(f"blocks/{source}.npz")
    blocks = golden["packed"][np.abs(golden["dequantized"]).max(axis=1) < 100]
    type = TensorType[source]
    count = rows * columns // block_layout(type)[0]
    packed = blocks[drawn.integers(0, len(blocks), count)].reshape(rows, -1)
    return Sample(source, packed, unpack_blocks(packed.reshape(-1), type).reshape(rows, columns))
