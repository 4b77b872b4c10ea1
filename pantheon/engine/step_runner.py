"""What the engine thread needs of a runner; `pantheon.engine.runner.Runner` is the real one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.sampled_token import SampledToken
from pantheon.engine.token_mask import TokenMask


class Tokens(Protocol):
    """Tokens that a dispatched step samples; none of a chunk of prefill."""

    def read(self) -> list[SampledToken]:
        """Wait for them."""
        ...


class StepRunner(Protocol):
    """The device side of one model. What is dispatched runs in order.

    Attributes:
        batches: entries that decode steps are compiled for, rising; a step takes as long as the
            next of them that holds its own.
    """

    batches: tuple[int, ...]

    def start_row(self, row: int, sampling: RowSampling) -> None:
        """Prepare a row for a new sequence. Before anything of it is dispatched."""
        ...

    def copy_page(self, source: int, target: int) -> None:
        """Copy one page to another in every layer."""
        ...

    def load_state(self, row: int, slot: int | None) -> None:
        """Set a row's recurrent state to that of a slot; None to that before any token."""
        ...

    def save_state(self, row: int, slot: int) -> None:
        """Copy a row's recurrent state to a slot."""
        ...

    def prefill(
        self,
        tokens: Sequence[int],
        start: int,
        pages: Sequence[int],
        row: int,
    ) -> Tokens:
        """Dispatch one chunk of a prompt. Its last token is fed by `decode`."""
        ...

    def decode(
        self,
        rows: Sequence[int],
        positions: Sequence[int],
        pages: Sequence[Sequence[int]],
        sampling: Sequence[RowSampling],
        masks: Sequence[TokenMask | None],
        fed: Sequence[int | None],
        taken: Sequence[tuple[int, int]],
    ) -> Tokens:
        """Dispatch one decode step: each entry is fed a token and samples the next.

        A row has one entry, or its newest token and drafts of the following ones, one after
        another at positions that follow each other, which a model without recurrent layers takes.
        In the step after one with drafts the row is fed what the caller took of that step.

        Args:
            rows: the row of each entry; no more entries than the largest batch.
            positions: where the token that is fed stands.
            fed: the token; None for the newest that the row sampled, where the step before had
                no drafts of it. A row begins with the last token of its prompt.
            taken: (row, token) of every token that was taken of rows with drafts in the step
                before: they count as sampled.
        """
        ...

    def read_page(self, page: int) -> Sequence[np.ndarray]:
        """Wait for one page and copy it to the host, an array for each layer's keys and values."""
        ...

    def write_page(self, page: int, content: Sequence[np.ndarray]) -> None:
        """Dispatch the write of one page, as `read_page` gives it."""
        ...

    def read_state(self, slot: int) -> Sequence[np.ndarray]:
        """Wait for the recurrent state of a slot and copy it to the host, an array a part."""
        ...

    def write_state(self, slot: int, content: Sequence[np.ndarray]) -> None:
        """Dispatch the write of one state to a slot, as `read_state` gives it."""
        ...

    def reset(self) -> None:
        """Forget everything after a failed step."""
        ...
