"""How heads, experts and dimensions are divided among dies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pantheon.engine.gguf import GGUFFile
from pantheon.engine.model import ModelConfig, architecture_of
from pantheon.engine.model.config import DeltaNetConfig
from pantheon.engine.model.shard_plan import plan_shards
from tests.golden import golden_file


def _config(name: str) -> ModelConfig:
    with GGUFFile(golden_file(f"models/{name}-f32.gguf")) as file:
        return architecture_of(file).read_config(file)


_DENSE, _HYBRID, _MIXTURE = _config("llama-smollm"), _config("qwen35"), _config("qwen3moe")


@pytest.mark.parametrize("config", [_DENSE, _HYBRID, _MIXTURE])
def test_one_die_has_everything(config: ModelConfig) -> None:
    plan = plan_shards(config, 1)
    assert plan.local(config) == plan.held(config) == config
    assert plan.whole_parts(config) == ()


@given(st.integers(1, 4), st.integers(1, 4), st.sampled_from([1, 2, 4, 8]))
def test_every_query_head_finds_its_key_head_on_its_die(kv: int, group: int, dies: int) -> None:
    """Query head h reads key head h // (heads / kv_heads), on a die as in the model."""
    config = replace(_DENSE, heads=kv * group, kv_heads=kv)
    plan = plan_shards(config, dies)
    if plan.kv_heads is None:
        assert dies == 1 or kv % dies
        return
    local = plan.local(config)
    assert plan.held(config).kv_heads == len(plan.kv_heads) == local.kv_heads * dies
    for die in range(dies):
        for query in range(local.heads):
            key = die * local.kv_heads + query // (local.heads // local.kv_heads)
            assert plan.kv_heads[key] == (die * local.heads + query) // group


@given(st.integers(1, 4), st.integers(1, 4), st.sampled_from([1, 2, 4, 8]), st.booleans())
def test_every_value_head_finds_its_key_head_on_its_die(
    keys: int, times: int, dies: int, tiled: bool
) -> None:
    """`DeltaNetConfig.tiled` says which key head a value head reads, on a die as in the model."""
    shape = DeltaNetConfig(keys, keys * times, key_dim=2, value_dim=3, kernel=4, tiled=tiled)
    config = replace(_HYBRID, delta_net=shape)
    plan = plan_shards(config, dies)
    if plan.value_heads is None or plan.key_heads is None:
        assert dies == 1 or keys % dies
        return

    def read_by(head: int, of: DeltaNetConfig) -> int:
        return head % of.key_heads if tiled else head // (of.value_heads // of.key_heads)

    assert sorted(plan.value_heads) == list(range(shape.value_heads)), "each is on one die"
    local = plan.local(config).delta_net
    assert local is not None
    channels = plan.channels(shape).reshape(dies, -1)
    assert channels.shape[1] == local.channels
    for die in range(dies):
        own_keys = plan.key_heads[die * local.key_heads :][: local.key_heads]
        own_values = plan.value_heads[die * local.value_heads :][: local.value_heads]
        for place, head in enumerate(own_values):
            assert own_keys[read_by(place, local)] == read_by(head, shape)
        # Queries, keys and values of these heads, of 2, 2 and 3 channels.
        starts = [2 * key for key in own_keys] + [2 * (keys + key) for key in own_keys]
        expected = [start + i for start in starts for i in range(2)]
        expected += [4 * keys + 3 * head + i for head in own_values for i in range(3)]
        assert channels[die].tolist() == expected


def test_what_does_not_come_out_even_is_named() -> None:
    """Nothing falls back in silence."""
    assert plan_shards(_DENSE, 8).whole_parts(_DENSE) == (), "8 heads; key heads are repeated"
    assert plan_shards(_MIXTURE, 8).whole_parts(_MIXTURE) == ("attention",)
    assert plan_shards(_HYBRID, 8).whole_parts(_HYBRID) == ("attention", "delta nets")
    odd = plan_shards(_DENSE, 3).whole_parts(_DENSE)
    assert odd == ("attention", "feed-forward layers")
    five = plan_shards(_MIXTURE, 5).whole_parts(_MIXTURE)
    assert five == ("attention", "experts", "embedding and head")


def test_repeated_heads_count_in_what_a_die_holds() -> None:
    plan = plan_shards(_DENSE, 8)
    local = plan.local(_DENSE)
    assert (local.heads, local.kv_heads) == (1, 1)
    assert local.kv_bytes_per_token * 2 == _DENSE.kv_bytes_per_token
    assert np.bincount(plan.kv_heads or ()).tolist() == [4, 4]
