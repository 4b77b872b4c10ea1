"""The pages of attention layers: on the die layer by layer, in host memory where it has no room."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from typing import Any, Final, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.errors import JaxRuntimeError

from pantheon.engine.model import ModelConfig
from pantheon.engine.model.kv_cache import KVCache, LayerCache, StackedCache
from pantheon.engine.residency import AttentionLayers, PagesNotAllocated
from pantheon.engine.runner.capacity import Capacity

_log: Final = logging.getLogger(__name__)

HOST_MEMORY: Final = "pinned_host"
"""JAX's name of host memory that a die reads and writes."""


@runtime_checkable
class PageMemory(Protocol):
    """Where the pages of a layer may be."""

    def on_die(self, layer: int, held: LayerCache | None) -> LayerCache:
        """Zeroed pages on the die, or those that are held on the host, copied.

        Raises:
            PagesNotAllocated: they do not fit.
        """
        ...

    def on_host(self) -> LayerCache:
        """Zeroed pages in host memory."""
        ...


class DeviceMemory:
    """The memory of a JAX device, and that of its host."""

    def __init__(
        self, shape: tuple[int, ...], dtype: jnp.dtype, sharding: jax.sharding.Sharding, budget: int
    ) -> None:
        """Allocate nothing yet.

        Args:
            shape: of the keys of a layer, and of its values.
            sharding: on which devices they are.
            budget: bytes that the pages of all layers may take on each of those.
        """
        self._shape = shape
        self._dtype = dtype
        self._die = sharding
        self._host = sharding.with_memory_kind(HOST_MEMORY)
        self._layer_bytes = 2 * math.prod(sharding.shard_shape(shape)) * dtype.itemsize
        self._budget = budget

    def on_die(self, layer: int, held: LayerCache | None) -> LayerCache:
        """See `PageMemory`. A layer for which those before it leave no room can never be there."""
        needed = (layer + 1) * self._layer_bytes
        if needed > self._budget:
            raise PagesNotAllocated(
                f"the pages of {layer + 1} layers take {needed} bytes, but the die holds "
                f"{self._budget} beside the weights; a smaller ctx_cap or max_sessions fits",
                impossible=True,
            )
        try:
            pages = self._zeros() if held is None else jax.device_put(held, self._die)
            # Without waiting, a step would be told of what failed here.
            for array in pages:
                array.block_until_ready()
            return pages
        except JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
            raise PagesNotAllocated(
                f"{self._layer_bytes} bytes of pages could not be allocated: {error!s:.200}"
            ) from error

    def on_host(self) -> LayerCache:
        """See `PageMemory`."""
        # Not by a program, whose result would be on the die first.
        zeros = np.zeros(self._shape, self._dtype)
        keys, values = (jax.device_put(zeros, self._host, may_alias=False) for _ in range(2))
        return LayerCache(keys, values)

    def _zeros(self) -> LayerCache:
        keys, values = (jnp.zeros(self._shape, self._dtype, device=self._die) for _ in range(2))
        return LayerCache(keys, values)


class AttentionPages:
    """Allocates the pages of one model and brings back to the die what is not there."""

    def __init__(self, layers: AttentionLayers, memory: PageMemory) -> None:
        """Allocate nothing yet.

        Args:
            layers: is told where each layer is.
        """
        self._layers = layers
        self._memory = memory

    @property
    def layers(self) -> AttentionLayers:
        """Where each layer is."""
        return self._layers

    def allocate(self) -> tuple[LayerCache, ...]:
        """Zeroed pages for every layer."""
        pages = self._placed([None] * len(self._layers))
        return tuple(self._memory.on_host() if one is None else one for one in pages)

    def bring_back(self, kv: KVCache) -> tuple[LayerCache, ...] | None:
        """Try the die again for layers that are on the host and due. What they hold is kept.

        Returns:
            The pages of all layers, those that came to the die no longer in host memory; None
            where none did.
        """
        assert not isinstance(kv, StackedCache), "layers of their own have pages of their own"
        pages = self._placed(kv)
        if all(after is None for after in pages):
            return None
        for held, moved in zip(kv, pages, strict=True):
            if moved is not None:
                _delete(held)
        return tuple(
            held if moved is None else moved for held, moved in zip(kv, pages, strict=True)
        )

    def _placed(self, held: Sequence[LayerCache | None]) -> list[LayerCache | None]:
        """New pages on the die for each layer that gets them: of those without any, and of those
        on the host that are due."""
        new: list[LayerCache | None] = []
        last: PagesNotAllocated | None = None
        for index, pages in enumerate(held):
            placed: LayerCache | None = None
            on_die = pages is not None and self._layers.is_on_die(index)
            if not on_die and self._layers.may_try(index):
                try:
                    placed = self._memory.on_die(index, pages)
                except PagesNotAllocated as error:
                    last = error
                    self._layers.refused(index, error)
                else:
                    self._layers.allocated(index)
            new.append(placed)
        self._report(last, came=any(placed is not None for placed in new))
        return new

    def _report(self, error: PagesNotAllocated | None, *, came: bool) -> None:
        status, wait = self._layers.status(), self._layers.due_in_s
        outlook = "not tried again" if wait is None else f"tried again in {wait:.0f} s"
        if error is not None:
            _log.warning(
                "THE PAGES OF %d OF %d ATTENTION LAYERS ARE IN HOST MEMORY, which is much slower: "
                "%s; %s",
                status.host,
                status.total,
                error,
                outlook,
            )
        elif came and status.ring_alloc_failures:
            _log.info("the pages of %d of %d layers are on the die", status.ondie, status.total)


def attention_pages(
    config: ModelConfig, capacity: Capacity, layout: jax.sharding.Sharding, budget: int
) -> AttentionPages | None:
    """What allocates the pages of a model; None where none of its layers runs flash kernels, or
    where it is on several dies: all their pages are on them, or the model is not loaded.

    Args:
        layout: where the pages of a layer are.
        budget: see `DeviceMemory`.
    """
    if not config.implementation.is_gpu or len(layout.device_set) > 1:
        return None
    return placed_pages(config, capacity, layout, budget)


def placed_pages(
    config: ModelConfig, capacity: Capacity, layout: jax.sharding.Sharding, budget: int
) -> AttentionPages:
    """The same for any implementation, on one die."""
    shape = (capacity.pages, config.kv_heads, capacity.page_size, config.head_dim)
    return AttentionPages(
        AttentionLayers(config.attention_layers, flash=True, clock=time.monotonic),
        DeviceMemory(shape, jnp.dtype(config.kv_dtype), layout, budget),
    )


def on_one_die(device: jax.Device) -> jax.sharding.Sharding:
    """The layout of pages that are on one device."""
    # Of a mesh, even of one device: the type of an array says in which memory it is only then.
    mesh = jax.sharding.Mesh(np.array([device]), ("die",))
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())  # type: ignore[no-untyped-call]


def _delete(pages: Any) -> None:
    for array in jax.tree.leaves(pages):
        array.delete()
