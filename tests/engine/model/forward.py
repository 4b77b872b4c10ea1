"""Runs a model file over given tokens, outside the server's step functions."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from numpy.typing import NDArray

from pantheon.engine.gguf import GGUFFile
from pantheon.engine.model import (
    Architecture,
    Implementation,
    ModelCache,
    ModelConfig,
    Parameters,
    WeightReader,
    architecture_of,
    native_missing,
    stacked,
)
from pantheon.engine.model.kv_cache import allocate, place
from pantheon.engine.precision import Precision

PAGE_SIZE = 16
PAGES = 32
"""The same for every run, so that a model is compiled once for each length of a step."""

Model = tuple[Architecture, ModelConfig, Parameters]


def open_model(
    path: Path,
    context_cap: int = 0,
    *,
    native: bool = True,
    precision: Precision = Precision.FLOAT32,
    implementation: Implementation | None = None,
) -> Model:
    """Read a model file whole, for the native kernels where they are built.

    In float32, keys and values too: the tolerances of the reference data are those of its rounding.

    Args:
        implementation: None for the native kernels where `native` and they are there, else XLA.
    """
    with GGUFFile(path) as file:
        architecture = architecture_of(file)
        if implementation is None:
            native = native and native_missing() is None
            implementation = Implementation.NATIVE if native else Implementation.XLA
        config = architecture.read_config(file).within(context_cap)
        config = replace(config, implementation=implementation, kv_dtype=precision.kv_dtype)
        parameters = architecture.read_parameters(
            WeightReader(file, implementation=implementation, precision=precision),
            config,
            lambda done, total: None,
        )
    return architecture, config, parameters


def all_logits(
    path: Path, ids: NDArray[np.int32], chunks: list[int], grid: int = 0
) -> NDArray[np.float32]:
    """Logits [tokens, vocabulary] at every position; see `run`."""
    return run(open_model(path), ids, chunks, grid)[0]


def first_layers(model: Model, count: int) -> Model:
    """The same model without the layers after the first `count`."""
    architecture, config, parameters = model
    config = replace(config, layers=count, recurrent=config.recurrent[:count])
    return architecture, config, parameters._replace(layers=parameters.layers[:count])


def empty_cache(model: Model) -> ModelCache:
    """A cache of one sequence."""
    architecture, config, parameters = model
    kv = allocate(
        config.attention_layers,
        PAGES,
        config.kv_heads,
        PAGE_SIZE,
        config.head_dim,
        config.kv_dtype,
        stacked=parameters.is_stacked,
    )
    shapes = architecture.recurrent_shapes(config)
    return ModelCache(kv, tuple(jnp.zeros((1, *shape), jnp.float32) for shape in shapes))


def run(
    model: Model, ids: NDArray[np.int32], chunks: list[int], grid: int = 0
) -> tuple[NDArray[np.float32], NDArray[np.float32], ModelCache]:
    """Feed tokens in chunks of given sizes.

    Args:
        grid: where not 0, each chunk is a step of so many places, as the server's is: the tokens
            stand at their places on the grid, with padding before and after. A chunk of one
            token is a step of one.

    Returns:
        Logits [tokens, vocabulary] and final hidden states [tokens, hidden] at every position,
        and the cache that was left.
    """
    architecture, config, parameters = model
    # As the runner has them.
    parameters = stacked(parameters, config)
    cache = empty_cache((architecture, config, parameters))
    # Pages in falling order, so that a mix-up of page and position cannot go unseen.
    table = jnp.arange(PAGES, dtype=jnp.int32)[::-1][None]
    found, states = [], []
    start = 0
    for size in chunks:
        end = start + size
        on_grid = grid and size > 1
        first = start - start % grid if on_grid else start
        places = np.arange(first, first + grid if on_grid else end)
        valid = (start <= places) & (places < end)
        tokens = np.where(valid, ids[np.minimum(places, len(ids) - 1)], 0)
        logits, hidden, cache = _forward(
            architecture,
            config,
            parameters,
            jnp.asarray(tokens, jnp.int32)[None],
            jnp.asarray(places, jnp.int32)[None],
            jnp.asarray(valid)[None],
            table,
            cache,
        )
        found.append(np.asarray(logits)[valid])
        states.append(np.asarray(hidden)[valid])
        start = end
    return np.concatenate(found), np.concatenate(states), cache


@partial(jax.jit, static_argnums=(0, 1))
def _forward(
    architecture: Architecture,
    config: ModelConfig,
    parameters: Parameters,
    tokens: Int[Array, "1 time"],
    positions: Int[Array, "1 time"],
    valid: Bool[Array, "1 time"],
    table: Int[Array, "1 pages"],
    cache: ModelCache,
) -> tuple[Float[Array, "time vocabulary"], Float[Array, "time hidden"], ModelCache]:
    placement = place(
        positions,
        valid,
        table,
        jnp.max(jnp.where(valid, positions + 1, 0), axis=1),
        jnp.zeros(1, jnp.int32),
        page_size=PAGE_SIZE,
        total_pages=table.shape[1],
    )
    hidden, cache = architecture.hidden_states(parameters, config, tokens, placement, cache)
    return architecture.logits(parameters, config, hidden[0]), hidden[0], cache
