"""Admission by memory, before anything large is allocated (reference, load: 507)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import psutil
import pytest

from pantheon.engine.admission import (
    LAYER_PROGRAM_BYTES,
    PROGRAM_BYTES,
    USEFUL_WINDOW,
    MemoryNeed,
    memory_need,
)
from pantheon.engine.capacity import NotEnoughMemory
from pantheon.engine.config import EngineConfig, ModelOptions
from pantheon.engine.errors import LoadFailed, LoadFailure
from pantheon.engine.gguf import GGUFFile
from pantheon.engine.model import Implementation, WeightReader, architecture_of
from pantheon.engine.model.read import held_bytes
from pantheon.engine.registry import Registry
from tests.engine.gguf.huge import huge_model
from tests.golden import golden_file


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("quantize", [False, True])
@pytest.mark.parametrize(
    "name",
    [
        "models/llama-smollm-f32.gguf",
        "models/llama3-rope-f32.gguf",
        "quant/llama-smollm-Q4_1.gguf",
        "quant/llama-minicpm5-BF16.gguf",
    ],
)
def test_the_estimate_is_what_the_weights_take_and_their_largest_tensor_once_more(
    name: str, quantize: bool, native: bool
) -> None:
    """Laid out for the native kernels, a matrix has its last rows filled up to a block of 32."""
    with GGUFFile(golden_file(name)) as file:
        architecture = architecture_of(file)
        config = architecture.read_config(file)
        need = memory_need(file, config, ctx_cap=0, quantize=quantize, native=native)
        implementation = Implementation.NATIVE if native else Implementation.XLA
        reader = WeightReader(file, quantize=quantize, implementation=implementation)
        parameters = architecture.read_parameters(reader, config, lambda done, total: None)
    held = held_bytes(parameters)
    single = parameters._replace(memory=None)
    largest = max(leaf.nbytes for leaf in jax.tree.leaves(single))
    assert abs(need.weights - held - largest) < 10_000, "the rotary frequencies are computed"


@pytest.mark.parametrize(("cap", "tokens"), [(0, USEFUL_WINDOW), (64, 64), (10**9, USEFUL_WINDOW)])
def test_the_smallest_useful_cache_holds_a_short_talk(cap: int, tokens: int) -> None:
    with GGUFFile(golden_file("models/llama-smollm-f32.gguf")) as file:
        config = architecture_of(file).read_config(file)
        need = memory_need(file, config, ctx_cap=cap)
        halves = memory_need(file, replace(config, kv_dtype=np.dtype(np.float16)), ctx_cap=cap)
    assert config.context_length > USEFUL_WINDOW
    assert need.cache == tokens * 2 * config.layers * config.kv_heads * config.head_dim * 4
    assert 2 * halves.cache == need.cache


@pytest.mark.parametrize(
    ("name", "large_layers"), [("llama-smollm", 0), ("qwen35", 6), ("qwen3moe", 3)]
)
def test_layers_with_states_or_experts_have_larger_programs(name: str, large_layers: int) -> None:
    with GGUFFile(golden_file(f"models/{name}-f32.gguf")) as file:
        need = memory_need(file, architecture_of(file).read_config(file), ctx_cap=0)
    assert need.programs == PROGRAM_BYTES + large_layers * LAYER_PROGRAM_BYTES


def test_exactly_enough_is_enough_and_the_refusal_gives_the_numbers() -> None:
    need = MemoryNeed(weights=5_000_000_000, cache=30_000_000, steps=2_000_000)
    need.check(need.total)
    assert need.total == 5_032_000_000 + PROGRAM_BYTES
    with pytest.raises(NotEnoughMemory) as refused:
        need.check(need.total - 10**6)
    for number in ("5000 MB of weights", "30 MB", "2 MB", "5502 MB", "5501 MB are available"):
        assert number in str(refused.value)


def test_a_model_that_does_not_fit_is_refused_before_it_takes_anything(tmp_path: Path) -> None:
    """Scenario: load a model that is too large 20 times, then one that fits."""
    path = huge_model(tmp_path / "huge.gguf")
    registry = Registry(EngineConfig(models=(), backend="cpu", build="test"))
    process = psutil.Process()
    before = process.memory_info().rss
    for _ in range(20):
        with pytest.raises(LoadFailed, match=r"of weights.*are available") as refused:
            registry.load(ModelOptions(path=path))
        assert refused.value.failure is LoadFailure.NO_CAPACITY
        assert refused.value.__traceback__ is not None and refused.value.__cause__ is None
    assert process.memory_info().rss - before < 50 * 2**20
    options = ModelOptions(path=golden_file("broken/ok.gguf"), name="huge", max_concurrent=1)
    try:
        assert registry.load(options) is not None
    finally:
        registry.close()
