"""A runner that tells the followers what it is asked to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from pantheon.engine.hosts.group import HostGroup
from pantheon.engine.hosts.messages import (
    CopyPage,
    Decode,
    LoadState,
    Prefill,
    ReadPage,
    ReadState,
    Reset,
    SaveState,
    Start,
    StartRow,
    WritePage,
    WriteState,
)
from pantheon.engine.model import Architecture, ModelConfig, Parameters, Shards
from pantheon.engine.programs import ProgramStore
from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.runner import Capacity, Runner, Sampled
from pantheon.engine.runner.sampled import Prefilled
from pantheon.engine.sampled_token import SampledToken
from pantheon.engine.token_mask import TokenMask

_STEP_S: Final = 10.0
"""Longest time of a step while a model is closed: one takes a fraction of a second."""


class _Checked(Sampled):
    """What a step samples, unless it failed elsewhere."""

    def __init__(self, here: Sampled, check: Callable[[], None]) -> None:
        """Ask `check` after what is here."""
        self._here = here
        self._check = check

    def read(self) -> list[SampledToken]:
        """See `Sampled.read`."""
        tokens = self._here.read()
        self._check()
        return tokens


class LeadingRunner(Runner):
    """See `Runner`. What is dispatched here is dispatched by every follower, in the same order.

    Every method raises HostLost where one of them is gone. So does every step where one before it
    failed there, until `reset`.
    """

    def __init__(
        self,
        architecture: Architecture,
        config: ModelConfig,
        parameters: Parameters,
        capacity: Capacity,
        *,
        shards: Shards,
        hosts: HostGroup,
        model: int,
    ) -> None:
        """Lead runners of a model that every follower has opened under this number."""
        self._hosts = hosts
        self._model = model
        with hosts.telling(Start(model, capacity)):
            super().__init__(architecture, config, parameters, capacity, shards=shards)

    def compile(self, progress: Callable[[str], None], store: ProgramStore | None = None) -> None:
        """See `Runner.compile`; every process compiles its own."""
        super().compile(progress, None)
        self._hosts.wait_ready(self._model)

    def reset(self) -> None:
        """See `Runner.reset`."""
        with self._hosts.telling(Reset(self._model)):
            super().reset()

    @property
    def step_limit_s(self) -> float | None:
        """See `Runner.step_limit_s`: the other half of a step may never come."""
        return _STEP_S

    def give_up(self) -> None:
        """See `Runner.give_up`. What comes after that step waits for it too, of other models."""
        self._hosts.give_up(f"a step of model {self._model} over several hosts does not end")

    def close(self) -> None:
        """See `Runner.close`."""
        self._hosts.forget(self._model)
        # A step that waits for a host that is gone holds its arrays; to free them waits for it.
        if self._hosts.lost is None:
            super().close()

    def start_row(self, row: int, sampling: RowSampling) -> None:
        """See `Runner.start_row`."""
        with self._hosts.telling(StartRow(self._model, row, sampling)):
            super().start_row(row, sampling)

    def copy_page(self, source: int, target: int) -> None:
        """See `Runner.copy_page`."""
        with self._hosts.telling(CopyPage(self._model, source, target)):
            super().copy_page(source, target)

    def load_state(self, row: int, slot: int | None) -> None:
        """See `Runner.load_state`."""
        with self._hosts.telling(LoadState(self._model, row, slot)):
            super().load_state(row, slot)

    def save_state(self, row: int, slot: int) -> None:
        """See `Runner.save_state`."""
        with self._hosts.telling(SaveState(self._model, row, slot)):
            super().save_state(row, slot)

    def read_page(self, page: int) -> list[np.ndarray]:
        """See `Runner.read_page`."""
        # The others are held off until it is dispatched, not until it is here.
        with self._hosts.telling(ReadPage(self._model, page)):
            read = self.dispatch_read_page(page)
        found = self._host.page(read)
        self._hosts.check_steps(self._model)
        return found

    def write_page(self, page: int, content: Sequence[np.ndarray]) -> None:
        """See `Runner.write_page`."""
        with self._hosts.telling(WritePage(self._model, page, _bytes(content))):
            super().write_page(page, content)

    def read_state(self, slot: int) -> list[np.ndarray]:
        """See `Runner.read_state`."""
        with self._hosts.telling(ReadState(self._model, slot)):
            read = self.dispatch_read_state(slot)
        found = self._host.state(read)
        self._hosts.check_steps(self._model)
        return found

    def write_state(self, slot: int, content: Sequence[np.ndarray]) -> None:
        """See `Runner.write_state`."""
        with self._hosts.telling(WriteState(self._model, slot, _bytes(content))):
            super().write_state(slot, content)

    def prefill(
        self, tokens: Sequence[int], start: int, pages: Sequence[int], row: int
    ) -> Prefilled:
        """See `Runner.prefill`."""
        message = Prefill(self._model, tuple(tokens), start, tuple(pages), row)
        with self._hosts.telling(message):
            return super().prefill(tokens, start, pages, row)

    def decode(
        self,
        rows: Sequence[int],
        positions: Sequence[int],
        pages: Sequence[Sequence[int]],
        sampling: Sequence[RowSampling],
        masks: Sequence[TokenMask | None] | None = None,
        fed: Sequence[int | None] | None = None,
        taken: Sequence[tuple[int, int]] = (),
    ) -> Sampled:
        """See `Runner.decode`."""
        masks = [None] * len(rows) if masks is None else masks
        fed = [None] * len(rows) if fed is None else fed
        message = Decode(
            self._model,
            tuple(rows),
            tuple(positions),
            tuple(map(tuple, pages)),
            tuple(map(_with_little_bias, sampling)),
            tuple(None if mask is None else mask.tobytes() for mask in masks),
            tuple(fed),
            tuple(taken),
        )
        with self._hosts.telling(message):
            here = super().decode(rows, positions, pages, sampling, masks, fed, taken)
        return _Checked(here, lambda: self._hosts.check_steps(self._model))


def _with_little_bias(sampling: RowSampling) -> RowSampling:
    """See `Decode.sampling`: a bias may be of every token of the vocabulary."""
    if len(sampling.logit_bias) < 2:
        return sampling
    return replace(sampling, logit_bias=sampling.logit_bias[:1])


def _bytes(content: Sequence[np.ndarray]) -> tuple[bytes, ...]:
    return tuple(np.ascontiguousarray(part).tobytes() for part in content)
