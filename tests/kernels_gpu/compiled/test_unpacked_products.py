"""Products with weights that no kernel reads, as XLA compiles them for a GPU, without one."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from bench.ahead_of_time import target
from pantheon.engine.model import Implementation
from pantheon.engine.model.gpu_products import PIECE_BYTES, gpu_product

_COLUMNS = 1024
_PIECES = 6


def test_one_piece_of_a_large_matrix_is_float32_at_a_time(tmp_path: Path) -> None:
    """README, `PN_DIE_RESERVE_BYTES`."""
    mesh = Mesh(target.devices(1), ("dies",))
    layout = NamedSharding(mesh, PartitionSpec())
    rows = jax.ShapeDtypeStruct((8, _COLUMNS), jnp.float32, sharding=layout)
    outputs = _PIECES * PIECE_BYTES // (4 * _COLUMNS)
    weight = jax.ShapeDtypeStruct((outputs, _COLUMNS), jnp.float16, sharding=layout)
    step = jax.jit(partial(gpu_product, implementation=Implementation.GPU))
    options = {"xla_gpu_cuda_data_dir": str(target.tools(tmp_path)), "xla_gpu_autotune_level": 0}
    memory = step.lower(rows, weight).compile(options).memory_analysis()
    assert memory is not None
    results = 2 * 8 * outputs * 4
    assert memory.temp_size_in_bytes < 1.25 * PIECE_BYTES + results
