"""Products of each token with the matrices of the experts that it chose, of stacks of raw blocks.

A pair is a token and one of its choices. Pairs stand in the order of their experts, on the device
(`pairs`), and a product is computed for each place of that order: `reference` says what it is.
`triton_product`, which needs Triton, computes it on a GPU; it is imported where it is used. `cases`
are shared by tests and by the table of compiled kernels.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pantheon.engine.kernels.expert_matmul.pairs import (
    ExpertPairs,
    ExpertTiles,
    by_expert,
    most_tiles,
    tiles_of,
)
from pantheon.engine.kernels.expert_matmul.reference import reference
from pantheon.engine.kernels.implementation import Implementation

CHOSEN: Final[Mapping[Implementation, str]] = MappingProxyType(
    {
        Implementation.NATIVE: "plain XLA, an expert after another",
        Implementation.XLA: "plain XLA, an expert after another",
        Implementation.GPU: "raw blocks grouped in Triton, others in XLA, an expert after another",
        Implementation.GPU_INTERPRETED: "raw blocks grouped in XLA, others an expert after another",
    }
)
"""What multiplies by the matrices of experts."""

__all__ = [
    "CHOSEN",
    "ExpertPairs",
    "ExpertTiles",
    "by_expert",
    "most_tiles",
    "reference",
    "tiles_of",
]
