"""Which function dequantises which type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, TypeAlias

from jaxtyping import Array, Float, UInt8

from pantheon.engine.gguf import TensorType, block_layout
from pantheon.engine.model.dequantize import (
    fp4,
    int8,
    iq4,
    iq_grids,
    k_quants,
    legacy,
    ternary,
)


class OwnType(Enum):
    """Types that no file has."""

    INT8 = "int8"
    """See `int8.py`."""


PackedType: TypeAlias = TensorType | OwnType

_Function: TypeAlias = Callable[
    [UInt8[Array, "*rows block_bytes"]], Float[Array, "*rows block_values"]
]

_FUNCTIONS: Final[Mapping[TensorType, _Function]] = MappingProxyType(
    {
        TensorType.Q4_0: legacy.q4_0,
        TensorType.Q4_1: legacy.q4_1,
        TensorType.Q5_0: legacy.q5_0,
        TensorType.Q5_1: legacy.q5_1,
        TensorType.Q8_0: legacy.q8_0,
        TensorType.Q2_K: k_quants.q2_k,
        TensorType.Q3_K: k_quants.q3_k,
        TensorType.Q4_K: k_quants.q4_k,
        TensorType.Q5_K: k_quants.q5_k,
        TensorType.Q6_K: k_quants.q6_k,
        TensorType.IQ4_NL: iq4.iq4_nl,
        TensorType.IQ4_XS: iq4.iq4_xs,
        TensorType.IQ2_XXS: iq_grids.iq2_xxs,
        TensorType.IQ2_XS: iq_grids.iq2_xs,
        TensorType.IQ2_S: iq_grids.iq2_s,
        TensorType.IQ3_XXS: iq_grids.iq3_xxs,
        TensorType.IQ3_S: iq_grids.iq3_s,
        TensorType.IQ1_S: iq_grids.iq1_s,
        TensorType.IQ1_M: iq_grids.iq1_m,
        TensorType.TQ1_0: ternary.tq1_0,
        TensorType.TQ2_0: ternary.tq2_0,
        TensorType.MXFP4: fp4.mxfp4,
        TensorType.NVFP4: fp4.nvfp4,
    }
)


PACKED_TYPES: Final = tuple(_FUNCTIONS)
"""The types of files that `dequantize` knows."""


def has_conversion(type: TensorType) -> bool:
    """Whether `dequantize` knows the type."""
    return type in _FUNCTIONS


def dequantize(
    packed: UInt8[Array, "*rows row_bytes"], type: PackedType
) -> Float[Array, "*rows columns"]:
    """The values of packed rows in float32, bit for bit those of ggml."""
    if isinstance(type, OwnType):
        return int8.int8_rows(packed)
    values, size = block_layout(type)
    blocks = packed.reshape(*packed.shape[:-1], packed.shape[-1] // size, size)
    return _FUNCTIONS[type](blocks).reshape(*packed.shape[:-1], blocks.shape[-2] * values)
