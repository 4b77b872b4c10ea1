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
from pantheon.engine.runner.buckets import PREFILL_CHUNK, decode_batch
from pantheon.engine.runner.sampling import batch_rows
from pantheon.engine.runner.steps import (
    ChoiceBatch,
    Chosen,
    DeviceState,
    copy_page_step,
    decode_step,
    prefill_step,
    read_page_step,
    start_row_step,
    write_page_step,
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
        self._architecture = architecture
        self._batch = decode_batch(capacity.rows)
        self._biased: set[int] = set()
        """Rows whose bias on the device is not zero."""
        self._steps: dict[str, Callable[..., Any]] = {}
        """The compiled steps by name."""

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

    def close(self) -> None:
        """Give every device array back now, whoever still refers to this object. Idempotent."""
        for array in jax.tree.leaves((self._parameters, self._state)):
            array.delete()

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

    def compile(self, progress: Callable[[str], None]) -> None:
        """Compile every step; nothing is traced afterwards."""
        greedy = RowSampling(0, 1, 0, 0)
        prefill = self._prefill_arguments([0], 0, (0,), 0, greedy, None)
        decode = self._decode_arguments([], [], [], [], [])
        number, page = np.int32(0), tuple(self.empty_page())
        bias = bias_vector((), self._config.vocabulary)
        steps: tuple[tuple[str, Callable[..., Any], bool, tuple[Any, ...]], ...] = (
            ("prefill", self._of_model(prefill_step), True, (self._parameters, *prefill)),
            ("decode", self._of_model(decode_step), True, (self._parameters, *decode)),
            ("start row", start_row_step, True, (number, bias)),
            ("copy page", copy_page_step, True, (number, number)),
            ("read page", read_page_step, False, (number,)),
            ("write page", write_page_step, True, (number, page)),
        )
        for done, (name, step, donates, arguments) in enumerate(steps, start=1):
            began = time.monotonic()
            jitted = jax.jit(self._counted(step), donate_argnums=0 if donates else ())
            self._steps[name] = jitted.lower(self._state, *arguments).compile()
            took = time.monotonic() - began
            progress(f"compiled {done}/{len(steps)}: {name} ({took:.1f} s)")

    def _of_model(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """A step of the model with the state as its first argument."""
        bound = functools.partial(step, self._architecture, self._config, self._capacity.page_size)

        def of_model(state: DeviceState, parameters: Parameters, *arguments: Any) -> Any:
            return bound(parameters, state, *arguments)

        return of_model

    def _counted(self, step: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(step)
        def traced(*arguments: Any) -> Any:
            self.traces += 1
            return step(*arguments)

        return traced

    def start_row(self, row: int, sampling: RowSampling) -> None:
        """Prepare a row for a new sequence. Before the first step of the sequence."""
        if not sampling.logit_bias and row not in self._biased:
            return
        bias = bias_vector(sampling.logit_bias, self._config.vocabulary)
        self._state = self._steps["start row"](self._state, np.int32(row), bias)
        (self._biased.add if sampling.logit_bias else self._biased.discard)(row)

    def copy_page(self, source: int, target: int) -> None:
        """Copy one page to another in every layer."""
        self._state = self._steps["copy page"](self._state, np.int32(source), np.int32(target))

    def load_state(self, row: int, slot: int | None) -> None:
        """Set a row's recurrent state. No architecture here has recurrent layers.

        Raises:
            ValueError: a slot is named.
        """
        if slot is not None:
            raise ValueError(f"this architecture keeps no recurrent states, got slot {slot}")

    def save_state(self, row: int, slot: int) -> None:
        """Copy a row's recurrent state to a slot. No architecture here has recurrent layers.

        Raises:
            ValueError: always.
        """
        raise ValueError(f"this architecture keeps no recurrent states, got slot {slot}")

    def read_page(self, page: int) -> list[np.ndarray]:
        """Copy one page to the host: keys and values of each layer, in order.

        Returns:
            Arrays of (kv_heads, page_size, head_dim).
        """
        return [np.asarray(part) for part in self._steps["read page"](self._state, np.int32(page))]

    def empty_page(self) -> list[np.ndarray]:
        """A page of zeros, as `read_page` gives it."""
        return [
            np.zeros(pages.shape[1:], pages.dtype) for pages in jax.tree.leaves(self._state.cache)
        ]

    def write_page(self, page: int, content: Sequence[np.ndarray]) -> None:
        """Dispatch the write of one page, as `read_page` gives it."""
        self._state = self._steps["write page"](self._state, np.int32(page), tuple(content))

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
            tokens: at least one, at positions `start` and on, up to the end of a grid cell
                of `PREFILL_CHUNK` positions.
            pages: the sequence's pages in order; they hold `start + len(tokens)` tokens.
            mask: tokens that may be sampled; None allows all.
        """
        arguments = self._prefill_arguments(tokens, start, pages, row, sampling, mask)
        chosen, self._state = self._steps["prefill"](self._state, self._parameters, *arguments)
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
        masks = [None] * len(rows) if masks is None else masks
        arguments = self._decode_arguments(rows, positions, pages, sampling, masks)
        chosen, self._state = self._steps["decode"](self._state, self._parameters, *arguments)
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
    ) -> tuple[np.ndarray | np.int32 | ChoiceBatch, ...]:
        skip = start % PREFILL_CHUNK
        count = skip + len(tokens)
        padded = np.zeros(PREFILL_CHUNK, np.int32)
        padded[skip:count] = tokens
        following = start + len(tokens)
        return (
            padded,
            np.int32(start - skip),
            np.int32(skip),
            np.int32(count),
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
    ) -> tuple[np.ndarray | ChoiceBatch, ...]:
        batch = self._batch
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
