"""A model is never held whole in float32: what a compiled step takes beside its arguments."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pantheon.engine.gguf import TensorType
from pantheon.engine.model.kv_cache import place
from pantheon.engine.model.linear import PIECE_BYTES, linear
from pantheon.engine.model.packed import PackedMatrix, rows_of
from tests.engine.model.forward import PAGE_SIZE, PAGES, empty_cache, open_model
from tests.golden import golden_file

_FLOAT32 = 4


def _temporary(step: jax.stages.Compiled) -> int:
    analysis = step.memory_analysis()
    assert analysis is not None
    return int(analysis.temp_size_in_bytes)


def _matrix(rows: int, columns: int) -> PackedMatrix:
    packed = jnp.zeros((rows, columns // 32 * 18), jnp.uint8)
    return PackedMatrix(packed, TensorType.Q4_0, columns)


@pytest.mark.parametrize("time", [1, 128])
@pytest.mark.parametrize("size", [64, 512, 1024])
def test_matrices_are_unpacked_one_after_another(size: int, time: int) -> None:
    """Twelve in a chain; small ones too, which XLA would rather unpack all at the start."""
    matrices = [_matrix(size, size) for _ in range(12)]

    def step(x: jax.Array, matrices: list[PackedMatrix]) -> jax.Array:
        for matrix in matrices:
            x = jnp.tanh(linear(x, matrix))
        return x

    x = jnp.zeros((time, size), jnp.float32)
    found = _temporary(jax.jit(step).lower(x, matrices).compile())
    activations = 6 * time * size * _FLOAT32
    piece = min(PIECE_BYTES, size * size * _FLOAT32)
    assert found < 2 * piece + activations + 65536
    assert found < 12 * size * size * _FLOAT32 / 2 + activations


def test_rows_of_an_embedding_do_not_unpack_it() -> None:
    table = _matrix(32768, 512)
    tokens = jnp.zeros(128, jnp.int32)
    found = _temporary(jax.jit(rows_of).lower(table, tokens).compile())
    assert found < 4 * tokens.size * 512 * _FLOAT32


@pytest.mark.parametrize("time", [1, 128])
def test_a_deep_model_takes_no_more_than_a_shallow_one(time: int) -> None:
    """llama-smollm in Q4_1, its two layers once and four times: a layer more costs an activation
    or two, and all of it is less than the matrices of one layer in float32."""
    architecture, config, parameters = open_model(golden_file("quant/llama-smollm-Q4_1.gguf"))
    found = []
    for repeats in (1, 4):
        deep = replace(config, layers=config.layers * repeats, recurrent=config.recurrent * repeats)
        weights = parameters._replace(layers=parameters.layers * repeats)
        cache = empty_cache((architecture, deep, weights))

        def step(weights, cache, tokens, deep=deep):  # type: ignore[no-untyped-def]
            positions = jnp.arange(time, dtype=jnp.int32)[None]
            placement = place(
                positions,
                jnp.ones((1, time), bool),
                jnp.arange(PAGES, dtype=jnp.int32)[None],
                positions[:, -1] + 1,
                jnp.zeros(1, jnp.int32),
                page_size=PAGE_SIZE,
                total_pages=PAGES,
            )
            hidden, cache = architecture.hidden_states(weights, deep, tokens, placement, cache)
            return architecture.logits(weights, deep, hidden[:, -1]), cache

        tokens = jnp.zeros((1, time), jnp.int32)
        jitted = jax.jit(step, donate_argnums=1)
        found.append(_temporary(jitted.lower(weights, cache, tokens).compile()))
    layer = sum(
        int(np.prod(leaf.shape)) * _FLOAT32
        for leaf in jax.tree.leaves(
            parameters.layers[0], is_leaf=lambda leaf: isinstance(leaf, PackedMatrix)
        )
    )
    activation = time * config.hidden * _FLOAT32
    assert found[1] < found[0] + 6 * 2 * activation + 65536 < found[0] + 6 * layer
    assert found[0] < layer + 8 * activation
