"""The arrays that a step is given, padded to the shapes it is compiled for.

What is as it was in the decode step before is on the device already: each array that XLA takes over
from the host costs the engine thread microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Int

from pantheon.engine.batches import holding
from pantheon.engine.model import ModelConfig
from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.runner.adjustment import batch_adjustments
from pantheon.engine.runner.buckets import PREFILL_CHUNK
from pantheon.engine.runner.capacity import Capacity
from pantheon.engine.runner.sampling import batch_rows
from pantheon.engine.runner.steps import ChoiceBatch, FedBatch
from pantheon.engine.token_mask import TokenMask


class _Kept:
    """Arrays on the device, as they were made the last time."""

    def __init__(self, put: Callable[[Any], Any]) -> None:
        self._put = put
        self._key: Any = None
        self._arrays: Any = None

    def get(self, key: Any, make: Callable[[], Any]) -> Any:
        """What `make` gives, on the device; made anew where the key is not that of the last time.

        Args:
            key: all that it depends on; not None.
        """
        if key != self._key:
            self._key, self._arrays = key, self._put(make())
        return self._arrays


class StepArguments:
    """Makes the arguments of the steps of one model. See `Runner` for what they mean.

    Used by one thread.
    """

    def __init__(
        self,
        config: ModelConfig,
        capacity: Capacity,
        batches: tuple[int, ...],
        put: Callable[[Any], Any] = jax.device_put,
    ) -> None:
        """Of a runner that decodes in these batches, rising.

        Args:
            put: arrays of the host to the device, or to every die.
        """
        self._config = config
        self._batches = batches
        self._capacity = capacity
        self._rows, self._tables, self._nothing_fed, self._chosen = (_Kept(put) for _ in range(4))

    def _table(self, pages: Sequence[int]) -> Int[np.ndarray, " blocks"]:
        table = np.zeros(self._capacity.table_width, np.int32)
        table[: len(pages)] = pages
        return table

    def prefill(
        self,
        tokens: Sequence[int],
        start: int,
        pages: Sequence[int],
        row: int,
    ) -> tuple[np.ndarray | np.int32, ...]:
        skip = start % PREFILL_CHUNK
        count = skip + len(tokens)
        padded = np.zeros(PREFILL_CHUNK, np.int32)
        padded[skip:count] = tokens
        return (
            padded,
            np.int32(start - skip),
            np.int32(skip),
            np.int32(count),
            self._table(pages),
            np.int32(row),
        )

    def decode(
        self,
        rows: Sequence[int],
        positions: Sequence[int],
        pages: Sequence[Sequence[int]],
        sampling: Sequence[RowSampling],
        masks: Sequence[TokenMask | None],
        fed: Sequence[int | None],
        taken: Sequence[tuple[int, int]],
    ) -> tuple[jax.Array | np.ndarray | FedBatch | ChoiceBatch, ...]:
        batch = holding(len(rows), self._batches)
        padded_positions = np.zeros(batch, np.int32)
        padded_positions[: len(positions)] = positions
        return (
            self._rows.get((batch, *rows), lambda: self._padded_rows(rows, batch)),
            padded_positions,
            self._tables.get(
                (batch, *map(tuple, pages)), lambda: self._padded_tables(pages, batch)
            ),
            self._fed(fed, taken, batch),
            self._choice(sampling, positions, masks, batch),
        )

    def padding(self, batch: int) -> tuple[Any, ...]:
        """Arguments of a decode step of so many entries, all of them padding."""
        rows, greedy = [self._capacity.rows] * batch, [RowSampling(0, 1, 0, 0)] * batch
        nothing = [None] * batch
        return self.decode(rows, [0] * batch, [()] * batch, greedy, nothing, nothing, [])

    def _padded_rows(self, rows: Sequence[int], batch: int) -> Int[np.ndarray, " batch"]:
        padded = np.full(batch, self._capacity.rows, np.int32)
        padded[: len(rows)] = rows
        return padded

    def _padded_tables(
        self, pages: Sequence[Sequence[int]], batch: int
    ) -> Int[np.ndarray, "batch blocks"]:
        tables = np.zeros((batch, self._capacity.table_width), np.int32)
        for index, held in enumerate(pages):
            tables[index] = self._table(held)
        return tables

    def _choice(
        self,
        rows: Sequence[RowSampling],
        positions: Sequence[int],
        masks: Sequence[TokenMask | None],
        batch: int,
    ) -> ChoiceBatch:
        following = np.zeros(batch, np.int32)
        following[: len(positions)] = positions
        following[: len(positions)] += 1
        masked = any(mask is not None for mask in masks)

        def made() -> ChoiceBatch:
            adjusted = masked or any(
                row.presence_penalty or row.frequency_penalty or row.logit_bias for row in rows
            )
            return ChoiceBatch(
                batch_rows(rows, positions, batch, self._config.tokens),
                batch_adjustments(rows, masks, batch, self._config.vocabulary),
                np.bool_(adjusted),  # type: ignore[arg-type]
                np.bool_(any(row.top_logprobs is not None for row in rows)),  # type: ignore[arg-type]
            )

        choice: ChoiceBatch = made() if masked else self._chosen.get((batch, *rows), made)
        sampling = choice.sampling._replace(positions=following)  # type: ignore[arg-type]
        return choice._replace(sampling=sampling)

    def _fed(
        self, fed: Sequence[int | None], taken: Sequence[tuple[int, int]], batch: int
    ) -> FedBatch:
        def made() -> FedBatch:
            tokens = np.full(batch, -1, np.int32)
            for index, token in enumerate(fed):
                if token is not None:
                    tokens[index] = token
            # They are of the step before, which may have been a larger one.
            most = self._batches[-1]
            taken_rows = np.full(most, self._capacity.rows, np.int32)
            taken_tokens = np.zeros(most, np.int32)
            for index, (row, token) in enumerate(taken):
                taken_rows[index], taken_tokens[index] = row, token
            return FedBatch(tokens, taken_rows, taken_tokens)  # type: ignore[arg-type]

        if taken or any(token is not None for token in fed):
            return made()
        nothing: FedBatch = self._nothing_fed.get(batch, made)
        return nothing
