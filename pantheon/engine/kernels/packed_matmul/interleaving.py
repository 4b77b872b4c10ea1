"""Rows in the interleaved layout, by the native library or by numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pantheon.engine.kernels.native import native_library
from pantheon.engine.kernels.packed_matmul import layouts


def interleaved(
    source: str,
    packed: NDArray[np.uint8],
    columns: int,
    out: NDArray[np.uint8] | None = None,
) -> NDArray[np.uint8]:
    """Rows in blocks of 32, as `layouts.interleaved` defines them, bit for bit.

    The library makes them, several times faster; without it, and for the types whose codes stand in
    codebooks (IQ1, IQ2, IQ3), numpy does.

    Args:
        source: the ggml type of the rows, or INT8; `format_of` has a format for them.
        packed: uint8 [rows, bytes of a row] as the file has it; float types likewise.
        columns: values of a row.
        out: where they are put, of the shape of `interleaved_shape`; None for new memory.

    Returns:
        uint8 [blocks, bytes of a block], aligned as XLA takes arrays over.

    Raises:
        ValueError: the arrays do not fit to the type and the columns.
    """
    library = native_library()
    format = layouts.format_of(source, columns)
    if library.missing is not None or format is None or not library.interleaves(source):
        return layouts.interleaved(source, packed, columns, out)
    if out is None:
        out = layouts.aligned(*layouts.interleaved_shape(format, len(packed), columns))
    library.interleave(source, np.ascontiguousarray(packed), columns, out)
    return out
