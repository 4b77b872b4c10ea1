"""A device that computes nothing, in a known time: what is left of a step is the host's."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pantheon.engine.residency import AttentionLayers
from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.sampled_token import SampledToken
from pantheon.engine.token_mask import TokenMask


@dataclass(frozen=True, slots=True)
class StubTokens:
    """Implements `pantheon.engine.step_runner.Tokens`."""

    ids: tuple[int, ...]
    ready_at: float

    def read(self) -> list[SampledToken]:
        left = self.ready_at - time.perf_counter()
        if left > 0:
            time.sleep(left)
        return [SampledToken(token) for token in self.ids]


class StubDevice:
    """Implements `pantheon.engine.step_runner.StepRunner`.

    Steps run one after another, as on a device: one ends `step_seconds` after it was dispatched,
    or after the one before it has ended.

    Attributes:
        dispatched: when each decode step of all rows was dispatched, by `time.perf_counter`.
    """

    held_bytes = 0
    attention = AttentionLayers(0, flash=False, clock=time.monotonic)

    def __init__(self, text: Sequence[int], rows: int, step_seconds: float = 0.0) -> None:
        """Sample the tokens of `text` in turn, by position."""
        self._text = text
        self._rows = rows
        self.batches: tuple[int, ...] = (rows,)
        self._step_seconds = step_seconds
        self._ends_at = 0.0
        self.dispatched: list[float] = []

    def start_row(self, row: int, sampling: RowSampling) -> None:
        pass

    def copy_page(self, source: int, target: int) -> None:
        pass

    def load_state(self, row: int, slot: int | None) -> None:
        pass

    def save_state(self, row: int, slot: int) -> None:
        pass

    def prefill(
        self,
        tokens: Sequence[int],
        start: int,
        pages: Sequence[int],
        row: int,
    ) -> StubTokens:
        return self._dispatch(())

    def decode(
        self,
        rows: Sequence[int],
        positions: Sequence[int],
        pages: Sequence[Sequence[int]],
        sampling: Sequence[RowSampling],
        masks: Sequence[TokenMask | None],
        fed: Sequence[int | None],
        taken: Sequence[tuple[int, int]],
    ) -> StubTokens:
        if len(rows) == self._rows:
            self.dispatched.append(time.perf_counter())
        return self._dispatch(positions)

    def read_page(self, page: int) -> list[np.ndarray]:
        return []

    def write_page(self, page: int, content: Sequence[np.ndarray]) -> None:
        pass

    def read_state(self, slot: int) -> list[np.ndarray]:
        return []

    def write_state(self, slot: int, content: Sequence[np.ndarray]) -> None:
        pass

    def reset(self) -> None:
        pass

    def close(self) -> None:
        """There is nothing to give back."""

    def _dispatch(self, positions: Sequence[int]) -> StubTokens:
        self._ends_at = max(self._ends_at, time.perf_counter()) + self._step_seconds
        ids = tuple(self._text[position % len(self._text)] for position in positions)
        return StubTokens(ids, self._ends_at)
