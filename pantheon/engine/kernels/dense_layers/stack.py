"""The weights of all layers as one call takes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, UInt8

from pantheon.engine.kernels.packed_matmul import InterleavedMatrix
from pantheon.engine.precision import Precision


class DenseLayer(NamedTuple):
    """The weights of one layer.

    Attributes:
        matrices: of query, key, value and output, then gate, up and down.
        next_norm: weight of the norm before the next layer, or before the head.
        biases: of query, key and value; none in an architecture without them.
        head_norms: weights of the norms over each head of query and key; none likewise.
    """

    matrices: tuple[InterleavedMatrix, ...]
    feed_forward_norm: Float[Array, " hidden"]
    next_norm: Float[Array, " hidden"]
    biases: tuple[Float[Array, " _rows"], ...]
    head_norms: tuple[Float[Array, " head_dim"], ...]

    @property
    def vectors(self) -> tuple[Float[Array, " _"], ...]:
        """In the order in which the call has them."""
        return self.feed_forward_norm, self.next_norm, *self.biases, *self.head_norms


class PlacedMatrix(NamedTuple):
    """Where a matrix lies, and what it is.

    Attributes:
        offset: in the memory of all of them, in bytes.
        format: its number.
        is_quantised: whether activations may be rounded for it.
    """

    offset: int
    format: int
    is_quantised: bool


@dataclass(frozen=True, slots=True)
class DenseStack:
    """All layers. A pytree of two arrays: each argument of a step takes time of its own.

    Attributes:
        memory: the matrices.
        vectors: weights of the first norm, then the vectors of each layer.
        matrices: seven of each layer.
        layers: how many there are.
        has_biases, has_head_norms: see `DenseLayer`.
    """

    memory: UInt8[Array, " bytes"]
    vectors: Float[Array, " numbers"]
    matrices: tuple[PlacedMatrix, ...]
    layers: int
    has_biases: bool
    has_head_norms: bool

    @classmethod
    def of(
        cls,
        memory: UInt8[Array, " bytes"],
        first_norm: Float[Array, " hidden"],
        layers: Sequence[DenseLayer],
    ) -> DenseStack:
        """Put layers together whose matrices lie in `memory`.

        Raises:
            ValueError: one lies elsewhere.
        """
        vectors = [first_norm, *(vector for layer in layers for vector in layer.vectors)]
        return cls(
            memory,
            # On the host: XLA would compile the concatenation.
            jax.device_put(np.concatenate([np.asarray(vector) for vector in vectors])),
            tuple(_placed(matrix) for layer in layers for matrix in layer.matrices),
            len(layers),
            layers[0].biases != (),
            layers[0].head_norms != (),
        )


def _placed(matrix: InterleavedMatrix) -> PlacedMatrix:
    if matrix.offset is None:
        raise ValueError("expected a matrix in the memory of all layers, got one of its own")
    is_quantised = matrix.precision is Precision.DEFAULT
    return PlacedMatrix(matrix.offset, matrix.format.number, is_quantised)


_STATIC = ("matrices", "layers", "has_biases", "has_head_norms")


def _flatten(stack: DenseStack) -> tuple[tuple[object, object], tuple[object, ...]]:
    return (stack.memory, stack.vectors), tuple(getattr(stack, name) for name in _STATIC)


def _unflatten(static: tuple[object, ...], leaves: tuple[object, object]) -> DenseStack:
    """JAX may have put something else in the arrays' place, which the constructor would refuse."""
    stack = object.__new__(DenseStack)
    for name, value in zip(("memory", "vectors", *_STATIC), (*leaves, *static), strict=True):
        object.__setattr__(stack, name, value)
    return stack


jax.tree_util.register_pytree_node(DenseStack, _flatten, _unflatten)
