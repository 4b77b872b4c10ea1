"""The state of a runner before its first step, and what it takes."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import jax
import numpy as np

from pantheon.engine.model import Architecture, ModelCache, ModelConfig
from pantheon.engine.model.kv_cache import KVCache, allocate, allocate_recurrent
from pantheon.engine.runner.adjustment import RowHistory
from pantheon.engine.runner.attention_pages import HOST_MEMORY
from pantheon.engine.runner.capacity import Capacity
from pantheon.engine.runner.steps import DeviceState


def zeroed_state(
    architecture: Architecture,
    config: ModelConfig,
    capacity: Capacity,
    kv: KVCache | None,
    *,
    stacked: bool,
) -> DeviceState:
    """Empty arrays for all pages, rows and checkpoints.

    Args:
        kv: the pages, where they are allocated already.
        stacked: whether the pages of all layers are one array.
    """
    if kv is None:
        kv = allocate(
            config.attention_layers,
            capacity.pages,
            config.kv_heads,
            capacity.page_size,
            config.head_dim,
            config.kv_dtype,
            native=config.native,
            stacked=stacked,
        )
    rows = capacity.rows + 1
    recurrent = allocate_recurrent(
        architecture.recurrent_shapes(config), rows + capacity.checkpoints, native=config.native
    )
    history = RowHistory(
        counts=_zeros((rows, config.vocabulary), np.int32),
        bias=_zeros((rows, config.vocabulary), np.float32),
    )
    return DeviceState(ModelCache(kv, recurrent), _zeros((rows,), np.int32), history)


def planned_by_device(state: DeviceState) -> Counter[Any]:
    """Bytes on each device, those of other hosts too, by shapes and layouts alone: the arrays
    themselves may be gone to a step meanwhile. Arrays in host memory are on none."""
    found: Counter[Any] = Counter()
    for array in jax.tree.leaves(state):
        if array.sharding.memory_kind == HOST_MEMORY:
            continue
        shape = array.sharding.shard_shape(array.shape)
        for device in array.sharding.device_set:
            found[device] += math.prod(shape) * array.dtype.itemsize
    return found


def _zeros(shape: tuple[int, ...], dtype: type[np.number]) -> jax.Array:
    """Zeros on the device, by no program that would have to be compiled first."""
    array: jax.Array = jax.device_put(np.zeros(shape, dtype), may_alias=False)
    return array
