"""Models on a device of choice, computed as a server computes them."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from pantheon.engine.gguf import GGUFFile
from pantheon.engine.model import (
    Architecture,
    Implementation,
    ModelCache,
    ModelConfig,
    Parameters,
    WeightReader,
    architecture_of,
)
from pantheon.engine.model.kv_cache import allocate, allocate_recurrent, place
from pantheon.engine.precision import Precision
from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.runner import DECODE_BATCHES, PREFILL_CHUNK, Capacity, Runner
from pantheon.engine.runner.attention_pages import on_one_die, placed_pages
from pantheon.engine.runner.graphs import graphs_of
from pantheon.engine.runner.sampled import Sampled

PAGE_SIZE: Final = 64
_GREEDY: Final = RowSampling(0.0, 1.0, 0, 0)


@dataclass(frozen=True, slots=True)
class Opened:
    """A model whose weights are on a device."""

    device: jax.Device
    architecture: Architecture
    config: ModelConfig
    parameters: Parameters


def open_model(path: Path, device: jax.Device, window: int) -> Opened:
    """Read a model file onto a device: for the kernels for GPUs on one, else for plain XLA."""
    implementation = Implementation.GPU if device.platform == "gpu" else Implementation.XLA
    with jax.default_device(device), GGUFFile(path) as file:
        architecture = architecture_of(file)
        config = architecture.read_config(file).within(window)
        config = replace(config, kv_dtype=Precision.DEFAULT.kv_dtype, implementation=implementation)
        parameters = architecture.read_parameters(
            WeightReader(file, implementation=implementation), config, lambda done, total: None
        )
    return Opened(device, architecture, config, parameters)


def scores(opened: Opened, tokens: Sequence[int]) -> Float[np.ndarray, "tokens vocabulary"]:
    """Scores at every position of a prompt, in one step as long as it is."""
    config, count = opened.config, len(tokens)
    pages = -(-count // PAGE_SIZE)

    def forward(parameters: Parameters, cache: ModelCache, ids: jax.Array) -> jax.Array:
        placement = place(
            jnp.arange(count, dtype=jnp.int32)[None],
            jnp.ones((1, count), bool),
            jnp.arange(pages, dtype=jnp.int32)[None],
            jnp.full(1, count, jnp.int32),
            jnp.zeros(1, jnp.int32),
            page_size=PAGE_SIZE,
            total_pages=pages,
        )
        hidden, _ = opened.architecture.hidden_states(parameters, config, ids, placement, cache)
        found: jax.Array = opened.architecture.logits(parameters, config, hidden[0])
        return found

    with jax.default_device(opened.device):
        kv = allocate(
            config.attention_layers,
            pages,
            config.kv_heads,
            PAGE_SIZE,
            config.head_dim,
            jnp.dtype(config.kv_dtype),
            stacked=opened.parameters.is_stacked,
        )
        states = allocate_recurrent(opened.architecture.recurrent_shapes(config), 1)
        ids = jnp.asarray(tokens, jnp.int32)[None]
        found = jax.jit(forward)(opened.parameters, ModelCache(kv, states), ids)
    return np.asarray(found, np.float32)


class Rows:
    """A runner of as many rows as are asked for, whose sequences all have the same prompt."""

    def __init__(
        self,
        opened: Opened,
        rows: int,
        window: int,
        *,
        replayed: bool = True,
        on_host: bool = False,
    ) -> None:
        """Compile its steps.

        Args:
            replayed: whether decode steps run as graphs, where the device has them.
            on_host: whether the pages are in host memory, as if the die had no room for any.
        """
        self._device = opened.device
        self._pages = -(-window // PAGE_SIZE)
        capacity = Capacity(rows, rows * self._pages, PAGE_SIZE, window)
        graphs = graphs_of("cuda") if replayed and opened.device.platform == "gpu" else None
        budget = 0 if on_host else sys.maxsize
        with jax.default_device(opened.device):
            self.runner = Runner(
                opened.architecture,
                opened.config,
                opened.parameters,
                capacity,
                batches=tuple(batch for batch in DECODE_BATCHES if batch <= rows),
                graphs=graphs,
                pages=placed_pages(opened.config, capacity, on_one_die(opened.device), budget),
            )
            self.runner.compile(lambda message: None)

    def prefill(self, prompt: Sequence[int], row: int) -> float:
        """Compute all of a prompt but its last token; seconds that the device took."""
        held = prompt[:-1]
        with jax.default_device(self._device):
            self.runner.start_row(row, _GREEDY)
            self.runner.load_state(row, None)
            began = time.perf_counter()
            done = [
                self.runner.prefill(
                    held[start : start + PREFILL_CHUNK], start, self._table(row), row
                )
                for start in range(0, len(held), PREFILL_CHUNK)
            ]
            done[-1].read()
            return time.perf_counter() - began

    def decode(
        self, prompt: Sequence[int], rows: int, count: int
    ) -> tuple[list[list[int]], list[float]]:
        """Greedy continuations of rows that are prefilled, and the seconds of each step."""
        tables = [self._table(row) for row in range(rows)]
        chosen: list[list[int]] = [[] for _ in range(rows)]
        seconds = []
        fed: list[int | None] = [prompt[-1]] * rows
        with jax.default_device(self._device):
            for index in range(count):
                began = time.perf_counter()
                position = len(prompt) - 1 + index
                sampled: Sampled = self.runner.decode(
                    list(range(rows)), [position] * rows, tables, [_GREEDY] * rows, fed=fed
                )
                for row, token in enumerate(sampled.read()):
                    chosen[row].append(token.id)
                seconds.append(time.perf_counter() - began)
                fed = [None] * rows
        return chosen, seconds

    def answers(
        self, prompt: Sequence[int], rows: int, count: int
    ) -> tuple[list[list[int]], list[float]]:
        """Prefill so many rows and decode them; see `decode`."""
        for row in range(rows):
            self.prefill(prompt, row)
        return self.decode(prompt, rows, count)

    def _table(self, row: int) -> list[int]:
        return list(range(row * self._pages, (row + 1) * self._pages))
