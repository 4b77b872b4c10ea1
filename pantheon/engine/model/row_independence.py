"""Whether a row of a step comes out the same whatever the number of rows."""

from __future__ import annotations

import jax

from pantheon.engine.kernels.packed_matmul import InterleavedMatrix
from pantheon.engine.model.config import ModelConfig
from pantheon.engine.model.parameters import Parameters


def computes_rows_alike(config: ModelConfig, parameters: Parameters) -> bool:
    """Whether every row is the same, bit for bit, in a decode step of any number of rows.

    The native kernels sum each row in one order. XLA chooses another order for each shape, and
    it computes the products of experts and the recurrence of delta nets.
    """
    if not config.native or config.moe is not None or any(config.recurrent):
        return False
    matrices = jax.tree.leaves(parameters, is_leaf=lambda leaf: isinstance(leaf, InterleavedMatrix))
    return all(
        isinstance(matrix, InterleavedMatrix) or len(matrix.shape) < 2 for matrix in matrices
    )
