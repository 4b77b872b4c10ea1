"""How a model is divided among dies. Plain numbers.

Tensor parallelism (Shoeybi et al., 2019): a die computes some heads of attention and of delta nets,
some of the inner dimensions of feed-forward layers or some experts, and some of the vocabulary.
What does not come out even every die has whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Int

from pantheon.engine.model.config import DeltaNetConfig, ModelConfig

Places = tuple[int, ...]
"""The head that stands at each place, the places of one die after those of the other. A head that
several dies need stands at several places."""


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """What is divided, among `dies` dies.

    Attributes:
        kv_heads: of attention; its query heads are divided in order. None for whole attention.
        key_heads, value_heads: of delta nets; None for whole ones.
        inner, shared_inner: whether the inner dimensions of dense feed-forward layers and of
            shared experts are.
        experts: whether the experts of a mixture are.
        vocabulary: whether embedding and head are.
    """

    dies: int
    kv_heads: Places | None
    key_heads: Places | None
    value_heads: Places | None
    inner: bool
    shared_inner: bool
    experts: bool
    vocabulary: bool

    def local(self, config: ModelConfig) -> ModelConfig:
        """The dimensions of what one die computes."""
        return self._with(config, self.dies)

    def held(self, config: ModelConfig) -> ModelConfig:
        """The dimensions of the arrays over all dies: heads that are repeated count each time."""
        return replace(self._with(config, 1), heads=config.heads)

    def _with(self, config: ModelConfig, dies: int) -> ModelConfig:
        if self.kv_heads is not None:
            config = replace(
                config, heads=config.heads // self.dies, kv_heads=len(self.kv_heads) // dies
            )
        if self.key_heads is None or self.value_heads is None or config.delta_net is None:
            return config
        delta_net = replace(
            config.delta_net,
            key_heads=len(self.key_heads) // dies,
            value_heads=len(self.value_heads) // dies,
        )
        return replace(config, delta_net=delta_net)

    def whole_parts(self, config: ModelConfig) -> tuple[str, ...]:
        """What every one of several dies has whole, in words."""
        if self.dies == 1:
            return ()
        return tuple(
            words
            for words, is_whole in (
                ("attention", config.attention_layers > 0 and self.kv_heads is None),
                ("delta nets", any(config.recurrent) and self.value_heads is None),
                ("feed-forward layers", config.moe is None and not self.inner),
                ("experts", config.moe is not None and not self.experts),
                (
                    "shared experts",
                    config.moe is not None
                    and config.moe.shared_inner > 0
                    and not self.shared_inner,
                ),
                ("embedding and head", not self.vocabulary),
            )
            if is_whole
        )

    def channels(self, shape: DeltaNetConfig) -> Int[np.ndarray, " held"]:
        """Of each channel that the dies hold, one die after the other, the channel of the model.

        Those of a die are its queries, its keys and its values, as the model's are.
        """
        assert self.key_heads is not None and self.value_heads is not None, "heads are divided"
        keys = np.reshape(self.key_heads, (self.dies, -1))
        values = np.reshape(self.value_heads, (self.dies, -1))
        of_keys = shape.key_heads * shape.key_dim
        parts = (
            _spread(keys, shape.key_dim),
            _spread(keys, shape.key_dim) + of_keys,
            _spread(values, shape.value_dim) + 2 * of_keys,
        )
        return np.concatenate(parts, axis=1).reshape(-1)


def plan_shards(config: ModelConfig, dies: int) -> ShardPlan:
    """Divide what comes out even. One die has everything whole."""
    if dies == 1:
        return ShardPlan(1, None, None, None, False, False, False, False)
    moe = config.moe
    keys, values = (
        (None, None) if config.delta_net is None else _delta_heads(config.delta_net, dies)
    )
    return ShardPlan(
        dies=dies,
        kv_heads=_kv_heads(config.heads, config.kv_heads, dies),
        key_heads=keys,
        value_heads=values,
        inner=moe is None and config.inner % dies == 0,
        shared_inner=moe is not None and moe.shared_inner > 0 and moe.shared_inner % dies == 0,
        experts=moe is not None and moe.experts % dies == 0,
        vocabulary=config.vocabulary % dies == 0,
    )


def rows_of_heads(heads: Places, size: int) -> Int[np.ndarray, " rows"]:
    """The rows of some heads of `size` rows each, in their order."""
    return _spread(np.asarray(heads), size)


def _kv_heads(heads: int, kv_heads: int, dies: int) -> Places | None:
    """Where there are fewer key heads than dies, several dies have the same one."""
    if kv_heads % dies == 0:
        return tuple(range(kv_heads))
    if dies % kv_heads == 0 and heads % dies == 0:
        return tuple(die * kv_heads // dies for die in range(dies))
    return None


def _delta_heads(shape: DeltaNetConfig, dies: int) -> tuple[Places | None, Places | None]:
    """Value heads with the key heads that they read; see `DeltaNetConfig.tiled`."""
    keys, values = shape.key_heads, shape.value_heads
    times = values // keys

    def readers(key: int) -> list[int]:
        if shape.tiled:
            return [time * keys + key for time in range(times)]
        return [key * times + time for time in range(times)]

    if keys % dies == 0:
        places: list[int] = []
        for own in np.split(np.arange(keys), dies):
            table = [readers(int(key)) for key in own]
            # In the order in which a model of these key heads alone would have them.
            ordered = np.asarray(table).T if shape.tiled else np.asarray(table)
            places += [int(head) for head in ordered.reshape(-1)]
        return tuple(range(keys)), tuple(places)
    if dies % keys == 0 and values % dies == 0:
        own_keys = tuple(die * keys // dies for die in range(dies))
        return own_keys, tuple(head for key in range(keys) for head in readers(key))
    return None, None


def _spread(heads: Int[np.ndarray, "*shape"], size: int) -> Int[np.ndarray, "*rows"]:
    """Rows of heads of `size` rows each, along the last axis."""
    rows = heads[..., None] * size + np.arange(size)
    return rows.reshape(*heads.shape[:-1], -1)
