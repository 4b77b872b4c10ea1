"""What the runner is told of the rows of one decode step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pantheon.engine.generation import Generation
from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.scheduler import DecodeRow
from pantheon.engine.token_mask import TokenMask


class StepEntries(NamedTuple):
    """The arguments of `StepRunner.decode`."""

    rows: list[int]
    positions: list[int]
    pages: list[tuple[int, ...]]
    sampling: list[RowSampling]
    masks: list[TokenMask | None]
    fed: list[int | None]
    taken: list[tuple[int, int]]


def step_entries(decode: Sequence[tuple[Generation, DecodeRow]]) -> StepEntries:
    """An entry for the newest token of each row, and one for each of its drafts.

    What generations took of drafts before is told with it, once.
    """
    batch = StepEntries([], [], [], [], [], [], [])
    for generation, row in decode:
        drafting = generation.drafting
        told = () if drafting is None else drafting.tell()
        mask = generation.mask()
        batch.taken.extend((row.row, token) for token in told)
        batch.fed.extend((told[-1] if told else row.fed, *row.drafts))
        batch.masks.extend((mask,) if drafting is None else drafting.masks(mask))
        entries = 1 + len(row.drafts)
        batch.rows.extend([row.row] * entries)
        batch.positions.extend(range(row.position, row.position + entries))
        batch.pages.extend([row.pages] * entries)
        batch.sampling.extend([generation.sampling] * entries)
    return batch
