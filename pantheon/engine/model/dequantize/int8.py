"""Signed bytes with a float32 scale for each group of a row: the one layout that is ours.

A row of n values is n bytes, then the n / 64 scales in float32, little-endian.
"""

from __future__ import annotations

from typing import Final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt8
from numpy.typing import NDArray

from pantheon.engine.model.dequantize.bits import signed

GROUP: Final = 64
"""Values of one scale."""

_SCALE_BYTES: Final = 4
_LARGEST: Final = 127


def row_bytes(columns: int) -> int:
    """Bytes of a packed row; `columns` is a multiple of `GROUP`."""
    return columns + columns // GROUP * _SCALE_BYTES


def int8_rows(packed: UInt8[Array, "*rows row_bytes"]) -> Float[Array, "*rows columns"]:
    """The values of packed rows: `scale * q`."""
    rows = packed.shape[:-1]
    groups = packed.shape[-1] // row_bytes(GROUP)
    values = signed(packed[..., : groups * GROUP]).reshape(*rows, groups, GROUP)
    quads = packed[..., groups * GROUP :].reshape(*rows, groups, _SCALE_BYTES)
    scales = jax.lax.bitcast_convert_type(quads, jnp.float32)
    return (scales[..., None] * values).reshape(*rows, groups * GROUP)


def quantise_rows(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Rows [rows, columns] packed: each group by its largest magnitude, rounded to nearest.

    Returns:
        uint8 [rows, row_bytes(columns)].
    """
    rows, columns = values.shape
    groups = values.reshape(rows, columns // GROUP, GROUP)
    scales = np.abs(groups).max(axis=-1, keepdims=True) / np.float32(_LARGEST)
    steps = np.divide(groups, scales, out=np.zeros_like(groups), where=scales > 0)
    packed = np.rint(steps).astype(np.int8).view(np.uint8).reshape(rows, columns)
    return np.concatenate((packed, scales[..., 0].astype("<f4").view(np.uint8)), axis=-1)
