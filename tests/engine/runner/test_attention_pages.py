"""Pages on a device and on its host (reference, `attention`: allocations that fail)."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.errors import JaxRuntimeError

from pantheon.engine.residency import PagesNotAllocated
from pantheon.engine.runner.attention_pages import HOST_MEMORY, DeviceMemory

_SHAPE = (4, 2, 8, 16)
_LAYER_BYTES = 2 * 4 * 2 * 8 * 16 * 2


def _memory(budget: int = 10 * _LAYER_BYTES) -> DeviceMemory:
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("die",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    return DeviceMemory(_SHAPE, jnp.dtype(jnp.float16), sharding, budget)


def _failing(message: str) -> Callable[..., jax.Array]:
    def zeros(*arguments: object, **named: object) -> jax.Array:
        raise JaxRuntimeError(message)

    return zeros


def test_pages_are_where_they_were_asked_for() -> None:
    memory = _memory()
    for pages, kind in ((memory.on_die(0, None), "device"), (memory.on_host(), HOST_MEMORY)):
        assert [array.sharding.memory_kind for array in pages] == [kind, kind]
        assert [array.shape for array in pages] == [_SHAPE, _SHAPE]
        assert not any(np.asarray(array).any() for array in pages)


def test_what_is_held_on_the_host_comes_along() -> None:
    memory = _memory()
    held = memory.on_host()
    held = held._replace(values=jax.device_put(np.ones(_SHAPE, np.float16), held.values.sharding))
    pages = memory.on_die(0, held)
    assert pages.values.sharding.memory_kind == "device"
    np.testing.assert_array_equal(pages.values, 1)
    np.testing.assert_array_equal(pages.keys, 0)


def test_layers_that_the_die_can_never_hold_are_told_apart() -> None:
    """Reference: `impossible`, the rings cannot fit this die at all."""
    memory = _memory(budget=2 * _LAYER_BYTES)
    memory.on_die(1, None)
    with pytest.raises(PagesNotAllocated, match="the pages of 3 layers take") as refused:
        memory.on_die(2, None)
    assert refused.value.impossible


def test_memory_that_is_short_may_be_there_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jnp, "zeros", _failing("RESOURCE_EXHAUSTED: Out of memory"))
    with pytest.raises(PagesNotAllocated, match="Out of memory") as refused:
        _memory().on_die(0, None)
    assert not refused.value.impossible


def test_another_error_is_none_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jnp, "zeros", _failing("INTERNAL: the device fell over"))
    with pytest.raises(JaxRuntimeError, match="fell over"):
        _memory().on_die(0, None)
