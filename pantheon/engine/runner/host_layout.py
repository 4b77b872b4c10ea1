"""Pages and recurrent states on their way between the device and the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from pantheon.engine.model import Architecture, ModelConfig
from pantheon.engine.model.kv_cache import StackedCache
from pantheon.engine.runner.capacity import Capacity
from pantheon.engine.runner.on_dies import OnDies
from pantheon.engine.runner.steps import DeviceState

Parts = list[NDArray[Any]]


class HostLayout:
    """Turns what steps read and write into what the host keeps, and back.

    The host has a page as keys and values of each layer in order, arrays of (kv_heads, page_size,
    head_dim), and a state layer by layer, whatever the layout on the device.
    """

    def __init__(
        self,
        architecture: Architecture,
        config: ModelConfig,
        capacity: Capacity,
        on_dies: OnDies | None,
    ) -> None:
        """Of one model.

        Args:
            on_dies: the layout over its dies; None on one device.
        """
        self._config = config
        self._page_size = capacity.page_size
        self._state_shapes = architecture.recurrent_shapes(config)
        self._on_dies = on_dies

    def empty_page(self) -> Parts:
        """A page of zeros."""
        config = self._config
        shape = (config.kv_heads, self._page_size, config.head_dim)
        return [np.zeros(shape, config.kv_dtype) for _ in range(2 * config.attention_layers)]

    def page(self, read: Sequence[jax.Array]) -> Parts:
        """What the step that reads a page gave."""
        found = [
            layer for part in map(np.asarray, read) for layer in part.reshape(-1, *part.shape[-3:])
        ]
        return found if self._on_dies is None else self._on_dies.page_of_model(found)

    def page_arrays(self, content: Sequence[np.ndarray], state: DeviceState) -> tuple[Any, ...]:
        """What the step that writes a page takes."""
        if self._on_dies is not None:
            return tuple(self._on_dies.page_of_dies(content))
        kv = state.cache.kv
        if not isinstance(kv, StackedCache):
            return tuple(content)
        (pages,) = jax.tree.leaves(kv)
        return (np.stack(content).reshape(pages.shape[1:]),)

    def empty_state(self) -> Parts:
        """A state of zeros; of nothing without recurrent layers."""
        return [np.zeros(shape, np.float32) for shape in self._state_shapes]

    def state(self, read: Sequence[jax.Array]) -> Parts:
        """What the step that reads a state gave."""
        found = [np.asarray(part) for part in read]
        return found if self._on_dies is None else self._on_dies.state_of_model(found)

    def state_arrays(self, content: Sequence[np.ndarray]) -> tuple[Any, ...]:
        """What the step that writes a state takes."""
        return tuple(content if self._on_dies is None else self._on_dies.state_of_dies(content))
