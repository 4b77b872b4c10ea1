"""Products of each token with the matrices of the experts that it chose, of stacks of raw blocks.

A pair is a token and one of its choices. Pairs stand in the order of their experts, on the device
(`pairs`), and a product is computed for each place of that order: `reference` says what it is.
`triton_product`, which needs Triton, computes it on a GPU; it is imported where it is used. `cases`
are shared by tests and by the table of compiled kernels.
"""

from pantheon.engine.kernels.expert_matmul.pairs import (
    ExpertPairs,
    ExpertTiles,
    by_expert,
    most_tiles,
    tiles_of,
)
from pantheon.engine.kernels.expert_matmul.reference import reference

__all__ = ["ExpertPairs", "ExpertTiles", "by_expert", "most_tiles", "reference", "tiles_of"]
