"""Pages that stand in host memory, inside a step.

The type of an array says in which memory it is. Pages of a layer that its die had no room for are
brought there for the layer alone and put back behind it: what computes is the same for all layers,
and so are its tokens. Where nothing is in host memory, nothing here is part of the step.
"""

from __future__ import annotations

from typing import TypeVar

import jax

_Arrays = TypeVar("_Arrays")


def on_die(held: _Arrays) -> _Arrays:
    """The same arrays in the memory of the device that computes."""
    arrays: _Arrays = jax.tree.map(
        lambda array: jax.device_put(array, jax.memory.Space.Device) if _on_host(array) else array,
        held,
    )
    return arrays


def in_memory_of(held: _Arrays, written: _Arrays) -> _Arrays:
    """What became of arrays, each in the memory of what it was made of."""
    arrays: _Arrays = jax.tree.map(
        lambda before, after: (
            jax.device_put(after, jax.memory.Space.Host) if _on_host(before) else after
        ),
        held,
        written,
    )
    return arrays


def _on_host(array: jax.Array) -> bool:
    return jax.typeof(array).memory_space is jax.memory.Space.Host
