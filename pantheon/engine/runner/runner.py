"""Owns a model's device arrays and runs its compiled steps."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from pantheon.engine.model import Architecture, ModelConfig, Parameters
from pantheon.engine.model.kv_cache import allocate
from pantheon.engine.model.parameters import held_bytes
from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.runner.buckets import PREFILL_CHUNKS, decode_batches, smallest_bucket
from pantheon.engine.runner.sampling import SamplingBatch, batch_rows
from pantheon.engine.runner.steps import DeviceState, decode_step, prefill_step


@dataclass(frozen=True, slots=True)
class Capacity:
    """How much a runner holds.

    Attributes:
        rows: sequences decoded at once.
        pages: pages of the KV pool.
        page_size: tokens of a page.
        window: most tokens of one sequence.
    """

    rows: int
    pages: int
    page_size: int
    window: int

    @property
    def table_width(self) -> int:
        """Entries of a block table: the pages of a whole window."""
        return -(-self.window // self.page_size)


class Sampled:
    """Tokens that a dispatched step will have sampled, in the order of its rows."""

    def __init__(self, tokens: jax.Array, count: int) -> None:
        """Hold the step's output; `count` leading entries are no padding."""
        self._tokens = tokens
        self._count = count

    def read(self) -> list[int]:
        """Wait for the step and return its tokens."""
        return [int(token) for token in np.asarray(self._tokens)[: self._count]]


class Runner:
    """The device side of one model. Used by one thread.

    It owns the parameters, the KV arrays and the newest token of each row; the caller owns
    which page belongs to whom.
    """

    def __init__(
        self,
        architecture: Architecture,
        config: ModelConfig,
        parameters: Parameters,
        capacity: Capacity,
    ) -> None:
        """Allocate the KV arrays. `compile` must run before the first step."""
        self._config = config
        self._capacity = capacity
        self._parameters = parameters
        self._state = self._empty_state()
        self.traces = 0
        """How often a step was traced. It must not grow after `compile`."""
        self._prefill_jit = self._jit(prefill_step, architecture)
        self._decode_jit = self._jit(decode_step, architecture)
        self._prefill: dict[int, Callable[..., Any]] = {}
        self._decode: dict[int, Callable[..., Any]] = {}

    @property
    def held_bytes(self) -> int:
        """Bytes of all device arrays held."""
        return held_bytes((self._parameters, self._state))

    def reset(self) -> None:
        """Start over with an empty cache, after a step failed and left its buffers undefined."""
        self._state = self._empty_state()

    def _empty_state(self) -> DeviceState:
        capacity, config = self._capacity, self._config
        cache = allocate(
            config.layers,
            capacity.pages,
            config.kv_heads,
            capacity.page_size,
            config.head_dim,
            jnp.dtype(jnp.float32),
        )
        return DeviceState(cache, jnp.zeros(capacity.rows + 1, jnp.int32))

    def _jit(self, step: Callable[..., Any], architecture: Architecture) -> Any:
        bound = functools.partial(step, architecture, self._config, self._capacity.page_size)

        @functools.wraps(step)
        def traced(*arguments: Any) -> Any:
            self.traces += 1
            return bound(*arguments)

        # Argument 1 is the state: its buffers are written in place.
        return jax.jit(traced, donate_argnums=1)

    def compile(self, progress: Callable[[str], None]) -> None:
        """Compile every step for every bucket; nothing is traced afterwards."""
        batches = decode_batches(self._capacity.rows)
        total = len(PREFILL_CHUNKS) + len(batches)
        done = 0

        def build(kind: str, size: int, jitted: Any, arguments: tuple[Any, ...]) -> Any:
            nonlocal done
            began = time.monotonic()
            compiled = jitted.lower(self._parameters, self._state, *arguments).compile()
            done += 1
            took = time.monotonic() - began
            progress(f"compiled {done}/{total}: {kind} of {size} ({took:.1f} s)")
            return compiled

        for chunk in PREFILL_CHUNKS:
            arguments = self._prefill_arguments([0], 0, (0,), 0, RowSampling(0, 1, 0, 0), chunk)
            self._prefill[chunk] = build("prefill", chunk, self._prefill_jit, arguments)
        for batch in batches:
            arguments = self._decode_arguments([], [], [], [], batch)
            self._decode[batch] = build("decode", batch, self._decode_jit, arguments)

    def prefill(
        self,
        tokens: Sequence[int],
        start: int,
        pages: Sequence[int],
        row: int,
        sampling: RowSampling,
    ) -> Sampled:
        """Dispatch the prefill of one chunk; its last token's successor is sampled.

        Args:
            tokens: 1 to `PREFILL_CHUNKS[-1]` tokens at positions `start` and on.
            pages: the sequence's pages in order; they hold `start + len(tokens)` tokens.
        """
        chunk = smallest_bucket(PREFILL_CHUNKS, len(tokens))
        arguments = self._prefill_arguments(tokens, start, pages, row, sampling, chunk)
        sampled, self._state = self._prefill[chunk](self._parameters, self._state, *arguments)
        return Sampled(sampled, 1)

    def decode(
        self,
        rows: Sequence[int],
        positions: Sequence[int],
        pages: Sequence[Sequence[int]],
        sampling: Sequence[RowSampling],
    ) -> Sampled:
        """Dispatch one decode step over some rows, each fed its newest token at its position."""
        batch = smallest_bucket(tuple(self._decode), len(rows))
        arguments = self._decode_arguments(rows, positions, pages, sampling, batch)
        sampled, self._state = self._decode[batch](self._parameters, self._state, *arguments)
        return Sampled(sampled, len(rows))

    def _table(self, pages: Sequence[int]) -> Int[np.ndarray, " blocks"]:
        table = np.zeros(self._capacity.table_width, np.int32)
        table[: len(pages)] = pages
        return table

    def _prefill_arguments(
        self,
        tokens: Sequence[int],
        start: int,
        pages: Sequence[int],
        row: int,
        sampling: RowSampling,
        chunk: int,
    ) -> tuple[np.ndarray | np.int32 | SamplingBatch, ...]:
        padded = np.zeros(chunk, np.int32)
        padded[: len(tokens)] = tokens
        following = start + len(tokens)
        return (
            padded,
            np.int32(start),
            np.int32(len(tokens)),
            self._table(pages),
            np.int32(row),
            batch_rows([sampling], [following], 1, self._config.tokens),
        )

    def _decode_arguments(
        self,
        rows: Sequence[int],
        positions: Sequence[int],
        pages: Sequence[Sequence[int]],
        sampling: Sequence[RowSampling],
        batch: int,
    ) -> tuple[np.ndarray | SamplingBatch, ...]:
        padded_rows = np.full(batch, self._capacity.rows, np.int32)
        padded_rows[: len(rows)] = rows
        padded_positions = np.zeros(batch, np.int32)
        padded_positions[: len(positions)] = positions
        tables = np.zeros((batch, self._capacity.table_width), np.int32)
        for index, held in enumerate(pages):
            tables[index] = self._table(held)
        following = [position + 1 for position in positions]
        return (
            padded_rows,
            padded_positions,
            tables,
            batch_rows(sampling, following, batch, self._config.tokens),
        )
