"""What the weights of a file take in memory, by the layout that ARCHITECTURE describes."""

from __future__ import annotations

import gguf

from pantheon.engine.model import native_missing

_CODEBOOKS = {
    **{"IQ1_S": 50, "IQ1_M": 56, "IQ2_XXS": 66, "IQ2_XS": 74},
    **{"IQ2_S": 82, "IQ3_XXS": 98, "IQ3_S": 110},
}
"""Bytes of a block of 256 of the types that become codes of 8 bits: 2 + 16 + 256 bytes."""

_UNPACKED_SCALES = {"Q3_K": 4, "Q4_K": 4, "Q5_K": 4, "IQ4_XS": 2}
"""Bytes that scales of six bits take more in a block of 256, as bytes of their own."""

_NO_MATRICES = ("ssm_conv1d", "ffn_gate_inp")
"""Tensors of two dimensions that XLA multiplies, or nobody."""


def held_bytes(tensor: gguf.ReaderTensor) -> int:
    """What a tensor of a file takes in memory.

    The native kernels take the rows of a matrix by 32: the last block is a whole one.
    """
    size = int(tensor.n_bytes)
    is_matrix = len(tensor.shape) == 2 and not any(name in tensor.name for name in _NO_MATRICES)
    if not is_matrix or native_missing() is not None:
        return size
    rows = int(tensor.shape[1])
    # Of each head, what makes its strength and its decay: two matrices.
    parts = 2 if "ssm_ba" in tensor.name else 1
    blocks = int(tensor.shape[0]) // 256
    more = _UNPACKED_SCALES.get(tensor.tensor_type.name, 0)
    if tensor.tensor_type.name in _CODEBOOKS:
        more = 274 - _CODEBOOKS[tensor.tensor_type.name]
    row = size // rows + blocks * more
    return parts * (-(-rows // parts // 32) * 32) * row
