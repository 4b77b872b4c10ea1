"""Puts the weights of a model on its dies, each where the plan has it, and lays its cache out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int

from pantheon.engine.gguf import TensorType, block_layout
from pantheon.engine.kernels.packed_matmul import InterleavedMatrix
from pantheon.engine.model.attention import AttentionParameters
from pantheon.engine.model.config import ModelConfig
from pantheon.engine.model.gated_delta_net import DeltaNetParameters
from pantheon.engine.model.kv_cache import ModelCache
from pantheon.engine.model.mlp import MlpParameters
from pantheon.engine.model.moe import MoeParameters
from pantheon.engine.model.packed import PackedMatrix, Weight
from pantheon.engine.model.shard_plan import ShardPlan, plan_shards, rows_of_heads
from pantheon.engine.model.split import DIE_AXIS, SplitMatrix

Rows = Int[np.ndarray, " _rows"]
_Tree = TypeVar("_Tree")
_Vector = Float[Array, " size"] | None


Put: TypeAlias = Callable[[Any, NamedSharding, Rows | None, int], Any]
"""Puts an array of the host on the dies in a layout. What it has along an axis, whose number comes
last, is taken in an order, some of it perhaps several times; None takes all of it as it is."""


def put_on_dies(array: Any, layout: NamedSharding, order: Rows | None, axis: int) -> jax.Array:
    """See `Put`."""
    host = np.asarray(array)
    host = host if order is None else np.take(host, order, axis=axis)
    # Every process has the whole on its host, and makes of it what its own dies hold.
    return jax.make_array_from_callback(host.shape, layout, lambda index: host[index])


@dataclass(frozen=True)
class Shards:
    """A model's dies and what each has of it. Arrays are given as the host has them.

    Attributes:
        put: how an array comes to the dies; another one than `put_on_dies` is for dies that are
            not there.
    """

    config: ModelConfig
    plan: ShardPlan
    mesh: Mesh
    put: Put = put_on_dies

    @staticmethod
    def over(devices: Sequence[Any], config: ModelConfig, put: Put = put_on_dies) -> Shards:
        """Divide a model of these dimensions among devices of JAX."""
        mesh = Mesh(np.asarray(devices), (DIE_AXIS,))
        return Shards(config, plan_shards(config, len(devices)), mesh, put)

    @property
    def everywhere(self) -> NamedSharding:
        """The layout of an array that every die has whole."""
        return self.layout(along(None))

    @property
    def of_pages(self) -> NamedSharding:
        """The layout of the pages of a layer."""
        return self.layout(along(None if self.plan.kv_heads is None else 1))

    def layout(self, spec: PartitionSpec) -> NamedSharding:
        """The layout of an array over the dies."""
        return NamedSharding(self.mesh, spec)

    def whole(self, tree: _Tree) -> _Tree:
        """Arrays whole on every die."""
        return self._put(tree, along(None))

    def mixer(
        self, mixer: AttentionParameters | DeltaNetParameters
    ) -> AttentionParameters | DeltaNetParameters:
        """The weights of a mixer by heads."""
        if isinstance(mixer, DeltaNetParameters):
            return self._delta_net(mixer)
        places = self.plan.kv_heads
        if places is None:
            return self.whole(mixer)
        own = rows_of_heads(places, self.config.head_dim)
        return mixer._replace(
            query=self._rows(mixer.query),
            key=self._rows(mixer.key, own),
            value=self._rows(mixer.value, own),
            output=self._columns(mixer.output),
            query_bias=self._vector(mixer.query_bias),
            key_bias=self._vector(mixer.key_bias, own),
            value_bias=self._vector(mixer.value_bias, own),
            query_norm=self.whole(mixer.query_norm),
            key_norm=self.whole(mixer.key_norm),
        )

    def feed_forward(self, layer: MlpParameters | MoeParameters) -> MlpParameters | MoeParameters:
        """The weights of a feed-forward layer by its inner dimensions, or by experts."""
        if isinstance(layer, MlpParameters):
            return self._mlp(layer, self.plan.inner)
        stacks = (layer.gate, layer.up, layer.down)
        spec = along(0 if self.plan.experts else None)
        gate, up, down = (self._put(stack, spec) for stack in stacks)
        shared = layer.shared
        return layer._replace(
            router=self.whole(layer.router),
            gate=gate,
            up=up,
            down=down,
            shared=None if shared is None else self._mlp(shared, self.plan.shared_inner),
            shared_gate=self.whole(layer.shared_gate),
        )

    def vocabulary(self, matrix: Weight) -> Weight:
        """The embedding or the head by rows."""
        if not self.plan.vocabulary:
            return self.whole(matrix)
        rows, columns = matrix.shape
        return SplitMatrix(self._rows(matrix), inputs=columns, outputs=rows)

    def cache_specs(self, cache: ModelCache) -> ModelCache:
        """For each array of a cache which of its axes is divided: that of the heads."""
        kv = along(None if self.plan.kv_heads is None else 1)
        is_divided = self.plan.value_heads is not None
        inputs, states = along(2 if is_divided else None), along(1 if is_divided else None)
        recurrent = tuple(states if index % 2 else inputs for index in range(len(cache.recurrent)))
        return ModelCache(jax.tree.map(lambda _: kv, cache.kv), recurrent)  # type: ignore[arg-type]

    def zeros(self, shapes: _Tree, layouts: Any) -> _Tree:
        """Zeros of given shapes in given layouts, made where they belong."""

        def made() -> _Tree:
            filled: _Tree = jax.tree.map(lambda one: jnp.zeros(one.shape, one.dtype), shapes)
            return filled

        found: _Tree = jax.jit(made, out_shardings=layouts)()
        return found

    def _delta_net(self, mixer: DeltaNetParameters) -> DeltaNetParameters:
        shape, heads = self.config.delta_net, self.plan.value_heads
        if heads is None:
            return self.whole(mixer)
        assert shape is not None, "a recurrent layer has a shape"
        channels, own = self.plan.channels(shape), np.asarray(heads)
        return mixer._replace(
            qkv=self._rows(mixer.qkv, channels),
            gate=self._rows(mixer.gate, rows_of_heads(heads, shape.value_dim)),
            strength=self._rows(mixer.strength, own),
            decay=self._rows(mixer.decay, own),
            convolution=self._rows(mixer.convolution, channels),
            decay_bias=self._rows(mixer.decay_bias, own),
            decay_rate=self._rows(mixer.decay_rate, own),
            norm=self.whole(mixer.norm),
            output=self._columns(mixer.output, own),
        )

    def _mlp(self, layer: MlpParameters, divided: bool) -> MlpParameters:
        if not divided:
            return self.whole(layer)
        return MlpParameters(
            gate=self._rows(layer.gate), up=self._rows(layer.up), down=self._columns(layer.down)
        )

    def _vector(self, vector: _Vector, rows: Rows | None = None) -> _Vector:
        return None if vector is None else self._rows(vector, rows)

    def _rows(self, tree: _Tree, rows: Rows | None = None) -> _Tree:
        """Rows of a matrix, or entries of a vector, divided in an order that has each die's own
        next to each other; None for their own order."""
        return self._put(tree, along(0), rows)

    def _columns(self, matrix: Weight, blocks: Rows | None = None) -> SplitMatrix:
        """Columns divided in blocks, in an order that has each die's own next to each other.

        A matrix in which that would cut through packed blocks is divided by rows instead, which
        costs a gathering of its inputs.

        Args:
            blocks: None for all columns in their order.
        """
        outputs, inputs = matrix.shape
        dies = self.plan.dies
        size = inputs // (dies if blocks is None else len(blocks))
        if not isinstance(matrix, PackedMatrix | InterleavedMatrix | SplitMatrix):
            part = self._put(matrix, along(1), _columns(blocks, size), axis=1)
            return SplitMatrix(part, inputs, outputs)
        block = _block_of(matrix)
        if block is not None and size % block[0] == 0:
            assert isinstance(matrix, PackedMatrix), "it has blocks"
            taken = _columns(blocks, size // block[0] * block[1])
            data = self._put(matrix.data, along(1), taken, axis=1)
            return SplitMatrix(replace(matrix, data=data, columns=inputs // dies), inputs, outputs)
        places = None if blocks is None else tuple(int(place) for place in np.argsort(blocks))
        divided = along(0 if outputs % dies == 0 else None)
        return SplitMatrix(self._put(matrix, divided), inputs, outputs, places)

    def _put(
        self, tree: _Tree, spec: PartitionSpec, order: Rows | None = None, axis: int = 0
    ) -> _Tree:
        layout = self.layout(spec)
        placed: _Tree = jax.tree.map(lambda array: self.put(array, layout, order, axis), tree)
        return placed


def gathered_matrices(layers: object) -> int:
    """How many matrices are divided by rows because a cut through their columns would have been one
    through packed blocks."""
    found = jax.tree.leaves(layers, is_leaf=lambda node: isinstance(node, SplitMatrix))
    return sum(isinstance(one, SplitMatrix) and one.matrix.shape[1] == one.inputs for one in found)


def along(axis: int | None) -> PartitionSpec:
    """Divided along an axis; None for whole on every die."""
    axes = () if axis is None else (*(None,) * axis, DIE_AXIS)
    return PartitionSpec(*axes)  # type: ignore[no-untyped-call]


def _columns(blocks: Rows | None, size: int) -> Rows | None:
    """Columns, or bytes of them, of blocks of `size`."""
    return None if blocks is None else rows_of_heads(tuple(blocks.tolist()), size)


def _block_of(matrix: Weight) -> tuple[int, int] | None:
    """Values and bytes of a packed block; None where a row is no sequence of blocks."""
    if not isinstance(matrix, PackedMatrix) or not isinstance(matrix.type, TensorType):
        return None
    return block_layout(matrix.type)
