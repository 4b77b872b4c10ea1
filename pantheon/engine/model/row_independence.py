"""Whether a row of a step comes out the same whatever the number of rows."""

from __future__ import annotations

import jax

from pantheon.engine.kernels.packed_matmul import InterleavedMatrix
from pantheon.engine.model.config import ModelConfig
from pantheon.engine.model.parameters import Parameters


def computes_rows_alike(config: ModelConfig, parameters: Parameters) -> bool:
    """Whether every row is the same, bit for bit, in a decode step of any number of rows.

    The native kernels sum each row in one order. XLA's products do not: it chooses another order
    for each shape, and so do the products of experts and the recurrence of delta nets.
    """
    if config.moe is not None or any(config.recurrent):
        return False
    matrices = jax.tree.leaves(parameters, is_leaf=lambda leaf: isinstance(leaf, InterleavedMatrix))
    return all(
        isinstance(matrix, InterleavedMatrix) or len(matrix.shape) < 2 for matrix in matrices
    )
