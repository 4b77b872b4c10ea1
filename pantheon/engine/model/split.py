"""Matrices whose product takes more than one die: what each has of them, and who adds it up.

Used inside `jax.shard_map` over the dies of a model, where an array is a die's own part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

DIE_AXIS: Final = "dies"
"""The one axis of the mesh of a model's dies."""


@dataclass(frozen=True, slots=True)
class SplitMatrix:
    """A matrix of `outputs` rows and `inputs` columns that is divided among dies.

    A pytree of the arrays of `matrix`. Those of several dies as one array have the parts one after
    another; inside the step `matrix` is the die's own part, and its shape says which:

    - fewer columns: each die multiplies its own inputs, and the products are added up;
    - fewer rows, or all of it: each die has all inputs (they are gathered where it has not), and
      makes some of the outputs, which are gathered.

    Attributes:
        matrix: the part, of any class that `linear` takes.
        places: where each block of the inputs stands among what is gathered; None where they come
            in order.
    """

    matrix: Any
    inputs: int
    outputs: int
    places: tuple[int, ...] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the whole matrix."""
        return self.outputs, self.inputs


def _flatten(split: SplitMatrix) -> tuple[tuple[object], tuple[Any, ...]]:
    return (split.matrix,), (split.inputs, split.outputs, split.places)


def _unflatten(static: tuple[Any, ...], leaves: tuple[object]) -> SplitMatrix:
    return SplitMatrix(leaves[0], *static)


jax.tree_util.register_pytree_node(SplitMatrix, _flatten, _unflatten)


def across_dies(
    x: Float[Array, "*batch _inputs"],
    split: SplitMatrix,
    product: Callable[[Float[Array, "*batch _inputs"]], Float[Array, "*batch _outputs"]],
) -> Float[Array, "*batch outputs"]:
    """The whole product on every die.

    Args:
        x: all inputs, or the die's own.
        product: with the die's own part.
    """
    _, columns = split.matrix.shape
    if columns != split.inputs:
        return added_up(product(x))
    if x.shape[-1] != split.inputs:
        x = _gathered(x)
        if split.places is not None:
            blocks = x.reshape(*x.shape[:-1], len(split.places), -1)
            x = blocks[..., np.asarray(split.places), :].reshape(x.shape)
    made = product(x)
    return made if made.shape[-1] == split.outputs else _gathered(made)


def rows_across_dies(
    split: SplitMatrix,
    rows: Int[Array, "*batch"],
    look_up: Callable[[Int[Array, "*batch"]], Float[Array, "*batch inputs"]],
) -> Float[Array, "*batch inputs"]:
    """Rows of a matrix whose rows are divided, on every die.

    Args:
        look_up: rows of the die's own part.
    """
    own = split.matrix.shape[0]
    within = rows - jax.lax.axis_index(DIE_AXIS) * own
    is_own = (within >= 0) & (within < own)
    found = look_up(jnp.clip(within, 0, own - 1))
    return added_up(jnp.where(is_own[..., None], found, 0))


def own_experts(chosen: Int[Array, "tokens used"], held: int) -> Int[Array, "tokens used"]:
    """Numbers of experts among the `held` ones of this die; `held` for those of others."""
    within = chosen - jax.lax.axis_index(DIE_AXIS) * held
    return jnp.where((within >= 0) & (within < held), within, held)


def added_up(part: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The sum of what the dies have, on every die."""
    total: jax.Array = jax.lax.psum(part, DIE_AXIS)  # type: ignore[no-untyped-call]
    return total


def _gathered(part: Float[Array, "*batch _part"]) -> Float[Array, "*batch _whole"]:
    whole: jax.Array = jax.lax.all_gather(part, DIE_AXIS, axis=part.ndim - 1, tiled=True)
    return whole
