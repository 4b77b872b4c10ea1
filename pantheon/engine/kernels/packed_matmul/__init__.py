"""Products of activations with weights that stay packed.

Implementations: `native` (C++, for matrices in the interleaved layout of `layouts`),
`triton_product` (Triton, for raw blocks on GPUs, imported where it is used) and `reference` (plain
XLA, for matrices as their file packs them), which is the definition that the others are tested
against. `cases` are shared by tests and benchmarks.
"""

from pantheon.engine.kernels.packed_matmul.chosen import CHOSEN
from pantheon.engine.kernels.packed_matmul.formats import BLOCK_ROWS, Format
from pantheon.engine.kernels.packed_matmul.interleaved import InterleavedMatrix
from pantheon.engine.kernels.packed_matmul.interleaving import interleaved
from pantheon.engine.kernels.packed_matmul.layouts import (
    ALIGNMENT,
    aligned,
    format_of,
    interleaved_shape,
)
from pantheon.engine.kernels.packed_matmul.native import products, taken_rows
from pantheon.engine.kernels.packed_matmul.raw_types import RAW_TYPES
from pantheon.engine.kernels.packed_matmul.reference import (
    PIECE_BYTES,
    late_zero,
    product,
    product_by_pieces,
)

__all__ = [
    "ALIGNMENT",
    "BLOCK_ROWS",
    "CHOSEN",
    "PIECE_BYTES",
    "RAW_TYPES",
    "Format",
    "InterleavedMatrix",
    "aligned",
    "format_of",
    "interleaved",
    "interleaved_shape",
    "late_zero",
    "product",
    "product_by_pieces",
    "products",
    "taken_rows",
]
