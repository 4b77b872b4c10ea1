"""What multiplies by the matrices of a model, for each choice of its operations."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pantheon.engine.kernels.implementation import Implementation
from pantheon.engine.kernels.packed_matmul.raw_types import RAW_TYPES

CHOSEN: Final[Mapping[Implementation, str]] = MappingProxyType(
    {
        Implementation.NATIVE: "C++ where it has a format for the type, plain XLA elsewhere",
        Implementation.XLA: "plain XLA",
        Implementation.GPU: f"raw blocks of {', '.join(RAW_TYPES)} in Triton, others in plain XLA",
        Implementation.GPU_INTERPRETED: "plain XLA in place of Triton",
    }
)
"""What computes products; the layout that a matrix was read into says of itself which."""
