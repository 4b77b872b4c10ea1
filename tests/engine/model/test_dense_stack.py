"""All layers in one native call, bit for bit what the single operations make of them.

Those are held to transformers' logits by `test_logits.py`, and so is the whole call, which the
models take there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float, Int

from pantheon.engine.kernels.dense_layers import DenseStack
from pantheon.engine.kernels.implementation import Implementation
from pantheon.engine.model import ModelCache, ModelConfig, Parameters, native_missing, stacked
from pantheon.engine.model.decoder import layer_by_layer
from pantheon.engine.model.dense_stack import dense_stack
from pantheon.engine.model.kv_cache import LayerCache, Placement, StackedCache, allocate, place
from pantheon.engine.model.packed import rows_of
from pantheon.engine.model.rotary import rotation
from pantheon.engine.precision import Precision
from tests.engine.model.forward import Model, open_model
from tests.golden import golden_file

pytestmark = pytest.mark.skipif(
    native_missing() is not None, reason=f"no native kernels: {native_missing()}"
)

_PAGE_SIZE = 16
_PAGES = 24
_DENSE = ("llama-smollm", "llama-mistral", "phi3", "qwen2", "qwen3")
_OTHERS = ("qwen3moe", "qwen3next", "qwen35", "qwen35moe")


def _open(name: str, precision: Precision = Precision.FLOAT32) -> Model:
    return open_model(golden_file(f"models/{name}-f32.gguf"), precision=precision)


def _cache(config: ModelConfig) -> ModelCache:
    """Keys and values as other steps might have left them."""
    random = np.random.default_rng(3)
    shape = (config.layers, _PAGES, config.kv_heads, _PAGE_SIZE, config.head_dim, config.kv_dtype)
    (pages,) = allocate(*shape, stacked=True)
    return ModelCache(StackedCache(jnp.asarray(random.normal(0, 1, pages.shape), pages.dtype)))


def _layer_by_layer(
    parameters: Parameters,
    config: ModelConfig,
    turns: Float[Array, "batch time 2 turned"],
    x: Float[Array, "batch time hidden"],
    placement: Placement,
    cache: ModelCache,
) -> tuple[Float[Array, "batch time hidden"], ModelCache]:
    """By single operations, over the same pages."""
    assert isinstance(parameters.layers, tuple) and isinstance(cache.kv, StackedCache)
    pages = jnp.moveaxis(cache.kv.pages, 0, 2)
    of_layers = ModelCache(tuple(LayerCache(*layer) for layer in pages))
    arguments = (config, turns, x, placement, of_layers)
    found, left = layer_by_layer(parameters.layers, parameters.output_norm, *arguments)
    written = jnp.stack([jnp.stack(layer) for layer in left.kv])
    return found, ModelCache(StackedCache(jnp.moveaxis(written, 2, 0)))


@partial(jax.jit, static_argnums=(0, 1))
def _both(
    config: ModelConfig,
    wanted: tuple[int, int] | None,
    parameters: Parameters,
    stack: DenseStack,
    tokens: Int[Array, "batch time"],
    positions: Int[Array, "batch time"],
    valid: Array,
    tables: Int[Array, "batch blocks"],
    cache: ModelCache,
) -> list[tuple[Float[Array, "batch time hidden"], ModelCache]]:
    placement = place(
        positions,
        valid,
        tables,
        jnp.max(jnp.where(valid, positions + 1, 0), axis=1),
        jnp.zeros(len(tokens), jnp.int32),
        None if wanted is None else jnp.array(wanted, jnp.int32),
        page_size=_PAGE_SIZE,
        total_pages=_PAGES,
    )
    x = rows_of(parameters.embedding, tokens)
    turns = rotation(
        positions, parameters.frequencies, config.rope, implementation=Implementation.NATIVE
    )
    return [
        dense_stack(stack, config, turns, x, placement, cache),
        _layer_by_layer(parameters, config, turns, x, placement, cache),
    ]


def _prefill(config: ModelConfig) -> list[np.ndarray]:
    """The cell of a prompt whose first 21 and last 32 places hold nothing."""
    tokens = np.random.default_rng(1).integers(0, config.tokens, (1, 128))
    places = np.arange(128)[None]
    tables = np.arange(_PAGES)[::-1][None]
    return [tokens, places, (places >= 21) & (places < 96), tables]


def _decode(config: ModelConfig) -> list[np.ndarray]:
    """Three rows and padding."""
    tokens = np.random.default_rng(2).integers(0, config.tokens, (4, 1))
    positions = np.array([[0], [37], [95], [0]])
    tables = np.arange(_PAGES).reshape(4, -1)
    return [tokens, positions, np.array([[True]] * 3 + [[False]]), tables]


def _arrays(step: Iterable[np.ndarray]) -> list[jax.Array]:
    return [jnp.asarray(one, bool if one.dtype == bool else jnp.int32) for one in step]


@pytest.mark.parametrize("precision", Precision)
@pytest.mark.parametrize("name", _DENSE)
def test_it_is_what_single_operations_make(name: str, precision: Precision) -> None:
    _, config, parameters = _open(name, precision)
    config = replace(config, sliding_window=20 if name == "llama-mistral" else 0)
    for step in (_prefill(config), _decode(config)):
        (found, left), (expected, held) = _both(
            config, None, parameters, _stack(parameters, config), *_arrays(step), _cache(config)
        )
        valid = step[2]
        np.testing.assert_array_equal(np.asarray(found)[valid], np.asarray(expected)[valid])
        assert np.isfinite(np.asarray(found)[valid]).all()
        jax.tree.map(np.testing.assert_array_equal, left, held)


@pytest.mark.parametrize("name", _DENSE)
def test_only_wanted_tokens_go_through_all_of_the_last_layer(name: str) -> None:
    _, config, parameters = _open(name)
    step = [_stack(parameters, config), *_arrays(_prefill(config))]
    all_of_them = _both(config, None, parameters, *step, _cache(config))[0]
    found, left = _both(config, (94, 96), parameters, *step, _cache(config))[0]
    np.testing.assert_array_equal(found[0, 94:96], all_of_them[0][0, 94:96])
    assert not np.asarray(found[0, :94]).any()
    assert not np.asarray(found[0, 96:]).any()
    jax.tree.map(np.testing.assert_array_equal, left, all_of_them[1])


@pytest.mark.parametrize("name", _OTHERS)
def test_layers_of_other_kinds_are_run_one_by_one(name: str) -> None:
    _, config, parameters = _open(name)
    assert stacked(parameters, config) is parameters


def _stack(parameters: Parameters, config: ModelConfig) -> DenseStack:
    layers = stacked(parameters, config).layers
    assert isinstance(layers, DenseStack)
    return layers


def _run(placement: Placement, model: Model) -> object:
    _, config, parameters = model
    x = rows_of(parameters.embedding, jnp.zeros_like(placement.positions))
    turns = rotation(
        placement.positions,
        parameters.frequencies,
        config.rope,
        implementation=Implementation.NATIVE,
    )
    run = jax.jit(dense_stack, static_argnums=1)
    found = run(_stack(parameters, config), config, turns, x, placement, _cache(config))
    return jax.block_until_ready(found)  # type: ignore[no-untyped-call]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"pages": [[_PAGES + 1]]}, f"expected a page up to {_PAGES}, got {_PAGES + 1}"),
        ({"pages": [[-1]]}, f"expected a page up to {_PAGES}, got -1"),
        ({"offsets": [[_PAGE_SIZE]]}, f"expected an offset below {_PAGE_SIZE}, got {_PAGE_SIZE}"),
        ({"block_tables": [[_PAGES, 0]]}, f"expected a page below {_PAGES}, got {_PAGES}"),
        ({"lengths": [33]}, "expected at most 32 tokens, got 33"),
        ({"live": [0, 2]}, "expected live rows of 1 from 0, got 2"),
        ({"live": [1, 1]}, "expected wanted tokens that are live, got 0"),
    ],
)
def test_a_step_that_points_outside_of_its_arrays_fails(
    change: dict[str, list[int]], error: str
) -> None:
    """Everything from outside is checked where XLA calls the library."""
    model = _open("llama-smollm")
    fields = {"positions": [[3]], "pages": [[1]], "offsets": [[3]], "block_tables": [[1, 0]]}
    fields |= {"lengths": [4], "slots": [0], "live": [0, 1], "wanted": [0, 1]}
    arrays = {name: jnp.array(value, jnp.int32) for name, value in (fields | change).items()}
    with pytest.raises(jax.errors.JaxRuntimeError, match=error):
        _run(Placement(valid=jnp.ones((1, 1), bool), **arrays), model)
