"""The arrays that a step is given, padded to the shapes it is compiled for."""

from __future__ import annotations

from collections.abc import Sequence

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


class StepArguments:
    """Makes the arguments of the steps of one model. See `Runner` for what they mean."""

    def __init__(self, config: ModelConfig, capacity: Capacity, batches: tuple[int, ...]) -> None:
        """Of a runner that decodes in these batches, rising."""
        self._config = config
        self._batches = batches
        self._capacity = capacity

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

    def _choice(
        self,
        rows: Sequence[RowSampling],
        positions: Sequence[int],
        masks: Sequence[TokenMask | None],
        batch: int,
    ) -> ChoiceBatch:
        wanted = any(row.top_logprobs is not None for row in rows)
        adjusted = any(mask is not None for mask in masks) or any(
            row.presence_penalty or row.frequency_penalty or row.logit_bias for row in rows
        )
        return ChoiceBatch(
            batch_rows(rows, positions, batch, self._config.tokens),
            batch_adjustments(rows, masks, batch, self._config.vocabulary),
            np.bool_(adjusted),  # type: ignore[arg-type]
            np.bool_(wanted),  # type: ignore[arg-type]
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
    ) -> tuple[np.ndarray | FedBatch | ChoiceBatch, ...]:
        batch = holding(len(rows), self._batches)
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
            self._fed(fed, taken, batch),
            self._choice(sampling, following, masks, batch),
        )

    def _fed(
        self, fed: Sequence[int | None], taken: Sequence[tuple[int, int]], batch: int
    ) -> FedBatch:
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
