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
from pantheon.engine.runner.adjustment import (
    RowHistory,
    batch_adjustments,
    bias_vector,
)
from pantheon.engine.runner.buckets import PREFILL_CHUNKS, decode_batches, smallest_bucket
from pantheon.engine.runner.sampling import batch_rows
from pantheon.engine.runner.steps import (
    ChoiceBatch,
    Chosen,
    DeviceState,
    decode_step,
    prefill_step,
    start_row_step,
)
from pantheon.engine.sampled_token import SampledToken
from pantheon.engine.token_mask import TokenMask


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

    def __init__(self, chosen: Chosen, rows: Sequence[RowSampling]) -> None:
        """Hold the step's output; entries past those of `rows` are padding."""
        self._chosen = chosen
        self._rows = tuple(rows)

    def read(self) -> list[SampledToken]:
        """Wait for the step and return its tokens."""
        tokens = np.asarray(self._chosen.tokens).tolist()
        if all(row.top_logprobs is None for row in self._rows):
            return [SampledToken(token) for token in tokens[: len(self._rows)]]
        chosen, top, top_tokens = (np.asarray(part) for part in self._chosen.logprobs)
        return [
            SampledToken(tokens[index])
            if row.top_logprobs is None
            else SampledToken(
                tokens[index],
                float(chosen[index]),
                tuple(
                    zip(
                        top_tokens[index, : row.top_logprobs].tolist(),
                        top[index, : row.top_logprobs].tolist(),
                        strict=True,
                    )
                ),
            )
            for index, row in enumerate(self._rows)
        ]


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
        self._start_row_jit = jax.jit(start_row_step, donate_argnums=0)
        self._start_row: Callable[..., Any] | None = None
        self._biased: set[int] = set()
        """Rows whose bias on the device is not zero."""
        self._prefill: dict[int, Callable[..., Any]] = {}
        self._decode: dict[int, Callable[..., Any]] = {}

    @property
    def held_bytes(self) -> int:
        """Bytes of all device arrays held."""
        return held_bytes((self._parameters, self._state))

    def reset(self) -> None:
        """Start over with an empty cache, after a step failed and left its buffers undefined."""
        self._biased.clear()
        # The old arrays go before the new ones come: memory may not hold both.
        del self._state
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
        rows = capacity.rows + 1
        history = RowHistory(
            counts=jnp.zeros((rows, config.vocabulary), jnp.int32),
            bias=jnp.zeros((rows, config.vocabulary), jnp.float32),
        )
        return DeviceState(cache, jnp.zeros(rows, jnp.int32), history)

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

        bias = bias_vector((), self._config.vocabulary)
        self._start_row = self._start_row_jit.lower(self._state, np.int32(0), bias).compile()
        for chunk in PREFILL_CHUNKS:
            greedy = RowSampling(0, 1, 0, 0)
            arguments = self._prefill_arguments([0], 0, (0,), 0, greedy, None, chunk)
            self._prefill[chunk] = build("prefill", chunk, self._prefill_jit, arguments)
        for batch in batches:
            arguments = self._decode_arguments([], [], [], [], [], batch)
            self._decode[batch] = build("decode", batch, self._decode_jit, arguments)

    def start_row(self, row: int, sampling: RowSampling) -> None:
        """Prepare a row for a new sequence. Before the first step of the sequence."""
        if not sampling.logit_bias and row not in self._biased:
            return
        if self._start_row is None:
            raise RuntimeError("compile must run before the first sequence")
        bias = bias_vector(sampling.logit_bias, self._config.vocabulary)
        self._state = self._start_row(self._state, np.int32(row), bias)
        (self._biased.add if sampling.logit_bias else self._biased.discard)(row)

    def prefill(
        self,
        tokens: Sequence[int],
        start: int,
        pages: Sequence[int],
        row: int,
        sampling: RowSampling,
        mask: TokenMask | None = None,
    ) -> Sampled:
        """Dispatch the prefill of one chunk; its last token's successor is sampled.

        Args:
            tokens: 1 to `PREFILL_CHUNKS[-1]` tokens at positions `start` and on.
            pages: the sequence's pages in order; they hold `start + len(tokens)` tokens.
            mask: tokens that may be sampled; None allows all.
        """
        chunk = smallest_bucket(PREFILL_CHUNKS, len(tokens))
        arguments = self._prefill_arguments(tokens, start, pages, row, sampling, mask, chunk)
        chosen, self._state = self._prefill[chunk](self._parameters, self._state, *arguments)
        return Sampled(chosen, [sampling])

    def decode(
        self,
        rows: Sequence[int],
        positions: Sequence[int],
        pages: Sequence[Sequence[int]],
        sampling: Sequence[RowSampling],
        masks: Sequence[TokenMask | None] | None = None,
    ) -> Sampled:
        """Dispatch one decode step over some rows, each fed its newest token at its position."""
        batch = smallest_bucket(tuple(self._decode), len(rows))
        masks = [None] * len(rows) if masks is None else masks
        arguments = self._decode_arguments(rows, positions, pages, sampling, masks, batch)
        chosen, self._state = self._decode[batch](self._parameters, self._state, *arguments)
        return Sampled(chosen, sampling)

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
        mask: TokenMask | None,
        chunk: int,
    ) -> tuple[np.ndarray | np.int32 | ChoiceBatch, ...]:
        padded = np.zeros(chunk, np.int32)
        padded[: len(tokens)] = tokens
        following = start + len(tokens)
        return (
            padded,
            np.int32(start),
            np.int32(len(tokens)),
            self._table(pages),
            np.int32(row),
            self._choice([sampling], [following], [mask], 1),
        )

    def _choice(
        self,
        rows: Sequence[RowSampling],
        positions: Sequence[int],
        masks: Sequence[TokenMask | None],
        batch: int,
    ) -> ChoiceBatch:
        wanted = any(row.top_logprobs is not None for row in rows)
        return ChoiceBatch(
            batch_rows(rows, positions, batch, self._config.tokens),
            batch_adjustments(rows, masks, batch, self._config.vocabulary),
            np.bool_(wanted),  # type: ignore[arg-type]
        )

    def _decode_arguments(
        self,
        rows: Sequence[int],
        positions: Sequence[int],
        pages: Sequence[Sequence[int]],
        sampling: Sequence[RowSampling],
        masks: Sequence[TokenMask | None],
        batch: int,
    ) -> tuple[np.ndarray | ChoiceBatch, ...]:
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
            self._choice(sampling, following, masks, batch),
        )
