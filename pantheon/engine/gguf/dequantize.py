"""Packed ggml blocks to float32, by the `gguf` package's numpy routines."""

import numpy as np
from gguf.quants import dequantize as dequantize_blocks
from numpy.typing import NDArray

from pantheon.engine.gguf.errors import GGUFError
from pantheon.engine.gguf.tensor import Tensor
from pantheon.engine.gguf.tensor_types import TensorType, block_layout

_CHUNK_VALUES = 1 << 18
"""Values per call of the block routines: their temporaries are several times this, and one call
per chunk costs little beside the arithmetic."""


def dequantize(tensor: Tensor) -> NDArray[np.float32]:
    """The values of a tensor, bit-exact to ggml's own conversion.

    Beside the result, a few megabytes of temporary memory are used at a time.

    Returns:
        A new float32 array of the tensor's shape.

    Raises:
        GGUFError: no conversion is known for the tensor's type.
    """
    values = unpack_blocks(tensor.packed.reshape(-1), tensor.type)
    return values.reshape(tensor.shape)


def unpack_blocks(packed: NDArray[np.uint8], found: TensorType) -> NDArray[np.float32]:
    """The values of packed blocks.

    Args:
        packed: uint8 [n * bytes per block], whole blocks of one type.
        found: Their type.

    Returns:
        float32 [n * values per block].

    Raises:
        GGUFError: no conversion is known for the type.
    """
    block_values, block_bytes = block_layout(found)
    blocks = packed.size // block_bytes
    if packed.size != blocks * block_bytes:
        raise GGUFError(
            f"{found.name} data must be whole blocks of {block_bytes} bytes, "
            f"found {packed.size} bytes"
        )
    values = np.empty(blocks * block_values, dtype=np.float32)
    step = max(_CHUNK_VALUES // block_values, 1)
    # Scales may be infinite or NaN in a damaged file; the values are then what ggml gives.
    with np.errstate(over="ignore", invalid="ignore"):
        for first in range(0, blocks, step):
            last = min(first + step, blocks)
            chunk = packed[first * block_bytes : last * block_bytes].reshape(1, -1)
            try:
                unpacked = dequantize_blocks(chunk, found)
            except NotImplementedError as error:
                raise GGUFError(f"no conversion to float32 for ggml type {found.name}") from error
            values[first * block_values : last * block_values] = unpacked.reshape(-1)
    return values
