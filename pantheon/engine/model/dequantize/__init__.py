"""Packed blocks to float32, inside a compiled step: a pure function for each type."""

from pantheon.engine.model.dequantize.types import (
    PACKED_TYPES,
    OwnType,
    PackedType,
    dequantize,
    has_conversion,
)

__all__ = ["PACKED_TYPES", "OwnType", "PackedType", "dequantize", "has_conversion"]
