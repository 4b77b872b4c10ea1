"""Runs a model file over given tokens, outside the server's step functions."""

from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy.typing import NDArray

from pantheon.engine.gguf import GGUFFile
from pantheon.engine.model import Architecture, ModelCache, ModelConfig, Parameters, architecture_of
from pantheon.engine.model.kv_cache import allocate, place

_PAGE_SIZE = 16


def open_model(path: Path) -> tuple[Architecture, ModelConfig, Parameters]:
    """Read a model file whole."""
    with GGUFFile(path) as file:
        architecture = architecture_of(file)
        config = architecture.read_config(file)
        parameters = architecture.read_parameters(file, config, lambda done, total: None)
    return architecture, config, parameters


def all_logits(path: Path, ids: NDArray[np.int32], chunks: list[int]) -> NDArray[np.float32]:
    """Logits [tokens, vocabulary] at every position, the tokens fed in chunks of given sizes."""
    architecture, config, parameters = open_model(path)
    pages = -(-len(ids) // _PAGE_SIZE)
    kv = allocate(
        config.layers,
        pages,
        config.kv_heads,
        _PAGE_SIZE,
        config.head_dim,
        jnp.dtype(jnp.float32),
    )
    cache = ModelCache(kv)
    # Pages in falling order, so that a mix-up of page and position cannot go unseen.
    table = jnp.arange(pages, dtype=jnp.int32)[::-1][None]
    found = []
    start = 0
    for size in chunks:
        end = start + size
        positions = jnp.arange(start, end, dtype=jnp.int32)[None]
        tokens = jnp.asarray(ids[start:end], jnp.int32)[None]
        logits, cache = _forward(architecture, config, parameters, tokens, positions, table, cache)
        found.append(np.asarray(logits))
        start = end
    return np.concatenate(found)


@partial(jax.jit, static_argnums=(0, 1))
def _forward(
    architecture: Architecture,
    config: ModelConfig,
    parameters: Parameters,
    tokens: Int[Array, "1 time"],
    positions: Int[Array, "1 time"],
    table: Int[Array, "1 pages"],
    cache: ModelCache,
) -> tuple[Float[Array, "time vocabulary"], ModelCache]:
    placement = place(
        positions,
        jnp.ones(positions.shape, bool),
        table,
        positions[:, -1] + 1,
        jnp.zeros(1, jnp.int32),
        page_size=_PAGE_SIZE,
        total_pages=table.shape[1],
    )
    hidden, cache = architecture.hidden_states(parameters, config, tokens, placement, cache)
    return architecture.logits(parameters, config, hidden[0]), cache
