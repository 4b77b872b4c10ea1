"""The steps and the cache of a model on dies: what lies where, and what the host is shown of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from numpy.typing import NDArray

from pantheon.engine.model import ModelConfig, Shards
from pantheon.engine.model.kv_cache import KVCache
from pantheon.engine.model.sharding import along
from pantheon.engine.runner.adjustment import RowHistory
from pantheon.engine.runner.steps import DeviceState


class Gives(Enum):
    """What a step gives."""

    STATE = "the state"
    VALUE = "what the host reads"
    BOTH = "what the host reads, and the state"


class OnDies:
    """Of one model. Heads stand in the arrays of the dies in an order of theirs, some perhaps
    several times (`ShardPlan`); pages and states that the host sees are those of the model."""

    def __init__(self, shards: Shards, state: DeviceState) -> None:
        """Lay out a state of these shapes, which are those of `held`."""
        self._shards = shards
        self._specs = DeviceState(
            shards.cache_specs(state.cache),
            along(None),  # type: ignore[arg-type]
            RowHistory(along(None), along(None)),  # type: ignore[arg-type]
        )
        self._layouts = jax.tree.map(shards.layout, self._specs, is_leaf=_is_spec)
        self._shapes = state

    @property
    def shapes(self) -> DeviceState:
        """The state as shapes with their layouts."""

        def there(array: Any, layout: NamedSharding) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=layout)  # type: ignore[no-untyped-call]

        shapes: DeviceState = jax.tree.map(there, self._shapes, self._layouts)
        return shapes

    @property
    def local(self) -> ModelConfig:
        """The dimensions of one die's part."""
        return self._shards.plan.local(self._shards.config)

    @property
    def devices(self) -> list[int]:
        """What JAX calls the dies, in their order."""
        return [int(device.id) for device in self._shards.mesh.devices.flat]

    @property
    def everywhere(self) -> jax.sharding.NamedSharding:
        """See `Shards.everywhere`."""
        return self._shards.everywhere

    def empty_state(self, kv: KVCache | None) -> DeviceState:
        """A state of zeros.

        Args:
            kv: the pages, where they are allocated already.
        """
        if kv is None:
            return self._shards.zeros(self._shapes, self._layouts)
        made = self._shards.zeros(_with_pages(self._shapes, ()), _with_pages(self._layouts, ()))
        return _with_pages(made, kv)

    def put(self, tree: Any) -> Any:
        """Arrays of the host on every die."""
        return self._shards.whole(tree)

    def results(self, gives: Gives, state: DeviceState) -> Any:
        """Layouts of what a step gives, the state as it is now."""
        layouts = jax.tree.map(lambda array: array.sharding, state)
        match gives:
            case Gives.STATE:
                return layouts
            case Gives.VALUE:
                return self.everywhere
            case Gives.BOTH:
                return self.everywhere, layouts

    def spread(self, step: Callable[..., Any], parameters: Any) -> Callable[..., Any]:
        """A step that gives a value and the state, run on every die with the die's own parts.

        Args:
            step: of state, parameters and what else it takes.
        """
        if self._shards.plan.dies == 1:
            return step
        of_parameters = jax.tree.map(lambda array: array.sharding.spec, parameters)

        def on_every_die(*arguments: Any) -> Any:
            others = (along(None),) * (len(arguments) - 2)
            mapped = jax.shard_map(
                step,
                mesh=self._shards.mesh,
                in_specs=(self._specs, of_parameters, *others),
                out_specs=(along(None), self._specs),
                # What every die computes alike is not told apart from what it has of its own.
                check_vma=False,
            )
            return mapped(*arguments)

        return on_every_die

    def page_of_model(self, page: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """A page of the dies as the model has it."""
        places = self._shards.plan.kv_heads
        return list(page) if places is None else [_as_of_model(part, places) for part in page]

    def page_of_dies(self, page: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """The other way round."""
        places = self._shards.plan.kv_heads
        return list(page) if places is None else [part[np.asarray(places)] for part in page]

    def state_of_model(self, state: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """A recurrent state of the dies, layer by layer, as the model has it."""
        return [
            part if places is None else _as_of_model(part, places, axis)
            for part, (places, axis) in zip(state, self._state_places(len(state)), strict=True)
        ]

    def state_of_dies(self, state: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """The other way round."""
        return [
            part if places is None else np.take(part, places, axis)
            for part, (places, axis) in zip(state, self._state_places(len(state)), strict=True)
        ]

    def _state_places(self, count: int) -> list[tuple[Sequence[int] | None, int]]:
        """Where the model's channels and heads stand in the arrays of one layer after the other,
        and along which axis."""
        plan, shape = self._shards.plan, self._shards.config.delta_net
        if plan.value_heads is None or shape is None:
            return [(None, 0)] * count
        channels = plan.channels(shape).tolist()
        return [(plan.value_heads, 0) if index % 2 else (channels, 1) for index in range(count)]


def _with_pages(state: DeviceState, kv: KVCache) -> DeviceState:
    return state._replace(cache=state.cache._replace(kv=kv))


def _as_of_model(part: NDArray[Any], places: Sequence[int], axis: int = 0) -> NDArray[Any]:
    """Each of the model's entries from the first place where it stands."""
    _, first = np.unique(np.asarray(places), return_index=True)
    return np.take(part, first, axis)


def _is_spec(node: object) -> bool:
    return isinstance(node, PartitionSpec)
