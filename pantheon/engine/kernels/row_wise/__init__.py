"""What is done to each row of activations by itself, between products: the native kernels.

A row's result does not depend on the other rows, bit for bit: XLA rounds differently in batches of
other sizes. For GPUs `pallas` has most of them, which is imported where it is used. The
same in plain XLA stands in `pantheon.engine.model`, where it is chosen.

Where `live` is taken, it is the first token that is no padding and one past the last, the tokens of
all sequences counted as one axis. Padding costs nothing and comes out as zeros. None for no
padding.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pantheon.engine.kernels.implementation import Implementation
from pantheon.engine.kernels.row_wise.native import (
    add_rms_norm,
    largest,
    rms_norm,
    rotate,
    rotation,
    silu_product,
)

CHOSEN: Final[Mapping[Implementation, str]] = MappingProxyType(
    {
        Implementation.NATIVE: "C++",
        Implementation.XLA: "plain XLA",
        Implementation.GPU: "Pallas",
        Implementation.GPU_INTERPRETED: "Pallas, interpreted",
    }
)
"""What computes norms, rotations and the factors of feed-forward layers."""

__all__ = [
    "CHOSEN",
    "add_rms_norm",
    "largest",
    "rms_norm",
    "rotate",
    "rotation",
    "silu_product",
]
