"""Models as shapes alone: of the sizes of those that an H200 serves, without a weight."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import jax
import jax.numpy as jnp

from pantheon.engine.gguf import TensorType, block_layout
from pantheon.engine.model import Implementation, ModelConfig, Parameters
from pantheon.engine.model.attention import AttentionParameters
from pantheon.engine.model.config import DeltaNetConfig, MoeConfig, Pairing, RopeConfig
from pantheon.engine.model.gated_delta_net import DeltaNetParameters
from pantheon.engine.model.mlp import MlpParameters
from pantheon.engine.model.moe import MoeParameters
from pantheon.engine.model.packed import PackedMatrix, RawMatrix
from pantheon.engine.model.parameters import LayerParameters, layer_on_dies
from pantheon.engine.model.sharding import Shards
from pantheon.engine.precision import Precision

_WINDOW: Final = 32768


@dataclass(frozen=True, slots=True)
class StepModel:
    """A model that steps are compiled for.

    Attributes:
        name: the model whose shape it has, and how its file is packed.
        kind: dense, hybrid or mixture.
        of_layers: its layers in all, where fewer are compiled.
    """

    name: str
    kind: str
    architecture: str
    config: ModelConfig
    of_layers: int

    def first_layers(self, count: int) -> StepModel:
        """The same without the layers after the first `count`."""
        config = replace(self.config, layers=count, recurrent=self.config.recurrent[:count])
        return replace(self, config=config)

    def parameters(self, shards: Shards) -> Parameters:
        """Shapes of its weights, as they are read for GPUs and lie on them."""
        config = self.config
        embedding = _matrix(TensorType.Q4_K, config.vocabulary, config.hidden)
        head = _matrix(TensorType.Q6_K, config.vocabulary, config.hidden)
        return Parameters(
            embedding=shards.vocabulary(embedding),
            layers=tuple(
                layer_on_dies(self._layer(index), shards) for index in range(config.layers)
            ),
            output_norm=shards.whole(_array(config.hidden)),
            head=shards.vocabulary(head),
            frequencies=shards.whole(_array(config.rope.dim // 2)),
        )

    def _layer(self, index: int) -> LayerParameters:
        config = self.config
        mixer = _delta_net if config.recurrent[index] else _attention
        # llama.cpp's Q4_K_M: six bits for every third of the layers in the middle, and for both
        # eighths at the ends, of the matrices whose errors cost most.
        eighth = self.of_layers // 8
        is_wide = index < eighth or index >= 7 * eighth or (index - eighth) % 3 == 2
        wide = TensorType.Q6_K if is_wide else TensorType.Q4_K
        feed_forward = _mlp if config.moe is None else _mixture
        return LayerParameters(
            mixer_norm=_array(config.hidden),
            mixer=mixer(config, wide),
            feed_forward_norm=_array(config.hidden),
            feed_forward=feed_forward(config, wide),
        )


def _attention(config: ModelConfig, wide: TensorType) -> AttentionParameters:
    hidden, rows = config.hidden, config.heads * config.head_dim
    kv_rows = config.kv_heads * config.head_dim
    return AttentionParameters(
        query=_matrix(TensorType.Q4_K, rows * (2 if config.gated_attention else 1), hidden),
        key=_matrix(TensorType.Q4_K, kv_rows, hidden),
        value=_matrix(wide, kv_rows, hidden),
        output=_matrix(TensorType.Q4_K, hidden, rows),
        query_norm=_array(config.head_dim),
        key_norm=_array(config.head_dim),
    )


def _delta_net(config: ModelConfig, wide: TensorType) -> DeltaNetParameters:
    shape = config.delta_net
    assert shape is not None, "a recurrent layer has a shape"
    values = shape.value_heads * shape.value_dim
    return DeltaNetParameters(
        qkv=_matrix(wide, shape.channels, config.hidden),
        gate=_matrix(TensorType.Q4_K, values, config.hidden),
        strength=_matrix(TensorType.Q8_0, shape.value_heads, config.hidden),
        decay=_matrix(TensorType.Q8_0, shape.value_heads, config.hidden),
        convolution=_array(shape.channels, shape.kernel),
        decay_bias=_array(shape.value_heads),
        decay_rate=_array(shape.value_heads),
        norm=_array(shape.value_dim),
        output=_matrix(TensorType.Q4_K, config.hidden, values),
    )


def _mlp(config: ModelConfig, wide: TensorType) -> MlpParameters:
    return MlpParameters(
        gate=_matrix(TensorType.Q4_K, config.inner, config.hidden),
        up=_matrix(TensorType.Q4_K, config.inner, config.hidden),
        down=_matrix(wide, config.hidden, config.inner),
    )


def _mixture(config: ModelConfig, wide: TensorType) -> MoeParameters:
    moe = config.moe
    assert moe is not None, "a mixture of experts has a shape"
    shared, gate = None, None
    if moe.shared_inner:
        shared, gate = _mlp(replace(config, inner=moe.shared_inner), wide), _array(config.hidden)
    return MoeParameters(
        router=_array(moe.experts, config.hidden),
        gate=_matrix(TensorType.Q4_K, moe.experts, moe.inner, config.hidden),
        up=_matrix(TensorType.Q4_K, moe.experts, moe.inner, config.hidden),
        down=_matrix(wide, moe.experts, config.hidden, moe.inner),
        shared=shared,
        shared_gate=gate,
    )


def _matrix(type: TensorType, *shape: int) -> PackedMatrix:
    values, size = block_layout(type)
    data: Any = _array(*shape[:-1], shape[-1] // values * size, dtype=jnp.uint8)
    return RawMatrix(data, type, shape[-1])


def _array(*shape: int, dtype: Any = jnp.float32) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]


def _decoder(
    layers: int,
    hidden: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    *,
    inner: int = 0,
    turned: int | None = None,
    is_recurrent: Callable[[int], bool] = lambda index: False,
    moe: MoeConfig | None = None,
    delta_net: DeltaNetConfig | None = None,
    vocabulary: int = 151936,
) -> ModelConfig:
    return ModelConfig(
        architecture="",
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        inner=inner,
        vocabulary=vocabulary,
        tokens=vocabulary - 267,
        context_length=_WINDOW,
        rms_epsilon=1e-6,
        rope=RopeConfig(turned or head_dim, 1e6, Pairing.HALVES),
        recurrent=tuple(map(is_recurrent, range(layers))),
        gated_attention=delta_net is not None,
        moe=moe,
        delta_net=delta_net,
        implementation=Implementation.GPU,
        kv_dtype=Precision.DEFAULT.kv_dtype,
    )


def _is_fourth(index: int) -> bool:
    return index % 4 != 3


DENSE: Final = StepModel(
    "Qwen3-8B Q4_K_M", "dense", "qwen3", _decoder(36, 4096, 32, 8, 128, inner=12288), 36
)
HYBRID: Final = StepModel(
    "Qwen3.5-9B Q4_K_M",
    "hybrid",
    "qwen35",
    _decoder(
        32,
        4096,
        16,
        4,
        256,
        inner=12288,
        turned=64,
        is_recurrent=_is_fourth,
        delta_net=DeltaNetConfig(16, 32, 128, 128, 4, tiled=True),
        vocabulary=248320,
    ),
    32,
)
MIXTURE: Final = StepModel(
    "Qwen3-30B-A3B Q4_K_M",
    "mixture",
    "qwen3moe",
    _decoder(48, 2048, 32, 4, 128, moe=MoeConfig(128, 8, 768)),
    48,
)
HYBRID_MIXTURE: Final = StepModel(
    "Qwen3-Next-80B-A3B Q4_K_M",
    "hybrid mixture",
    "qwen3next",
    _decoder(
        48,
        2048,
        16,
        2,
        256,
        turned=64,
        is_recurrent=_is_fourth,
        moe=MoeConfig(512, 10, 512, 512),
        delta_net=DeltaNetConfig(16, 32, 128, 128, 4, tiled=False),
    ),
    48,
)
MODELS: Final = (DENSE, HYBRID, MIXTURE, HYBRID_MIXTURE)
