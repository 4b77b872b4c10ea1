"""Whether a row of a step comes out the same whatever the number of rows."""

from __future__ import annotations

import jax

from pantheon.engine.kernels.packed_matmul import InterleavedMatrix
from pantheon.engine.model.config import ModelConfig
from pantheon.engine.model.packed import RawMatrix
from pantheon.engine.model.parameters import Parameters


def computes_rows_alike(config: ModelConfig, parameters: Parameters) -> bool:
    """Whether every row is the same, bit for bit, in a decode step of any number of rows.

    The kernels sum each row in one order. XLA chooses another order for each shape, and it
    computes parts of the products of experts and of the recurrence of delta nets.
    """
    if not config.implementation.has_kernels or config.moe is not None or any(config.recurrent):
        return False
    by_kernels = RawMatrix if config.implementation.is_gpu else InterleavedMatrix
    matrices = jax.tree.leaves(parameters, is_leaf=lambda leaf: isinstance(leaf, by_kernels))
    return all(isinstance(matrix, by_kernels) or len(matrix.shape) < 2 for matrix in matrices)
