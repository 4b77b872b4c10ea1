"""A device of plain Python whose every value tells all tokens that it was computed from.

What a real model computes at a position depends on the keys and values of all positions before
it, and in recurrent layers on the row's state. Here a cell of a page is a number drawn from its
token, from every cell before it, and from the state. So a stale page, a wrong share, a copy made
too late or a state that has seen other tokens changes what is read and what is sampled.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pantheon.engine.row_sampling import RowSampling
from pantheon.engine.sampled_token import SampledToken
from pantheon.engine.scheduler import StepPlan
from pantheon.engine.token_mask import TokenMask

VOCABULARY = 997
GREEDY = RowSampling(0.0, 1.0, 0, 0)
_MODULUS = (1 << 61) - 1


def _after(state: int, token: int) -> int:
    """The recurrent state once a token was fed."""
    return (state * 1_000_003 + token * 7919 + 1) % _MODULUS


def _cell(before: int, token: int, state: int) -> int:
    """What stands at a position: `before` is the checksum of all cells before it."""
    return (before * 2_147_483_647 + token * 65_537 + state + 11) % _MODULUS


def _sum_with(before: int, cell: int) -> int:
    return zlib.crc32(cell.to_bytes(8, "little"), before)


def cold(tokens: Sequence[int], recurrent: bool = False) -> tuple[list[int], int]:
    """The cells and the last state of a run over tokens that nothing was kept of."""
    cells, before, state = [], 0, 0
    for token in tokens:
        state = _after(state, token) if recurrent else 0
        cells.append(_cell(before, token, state))
        before = _sum_with(before, cells[-1])
    return cells, state


def cold_answer(prompt: Sequence[int], count: int, recurrent: bool = False) -> list[int]:
    """The tokens that a cold run samples."""
    cells, state = cold(prompt, recurrent)
    before = zlib.crc32(np.array(cells, np.int64).tobytes())
    sampled = [cells[-1] % VOCABULARY]
    for _ in range(count - 1):
        state = _after(state, sampled[-1]) if recurrent else 0
        cell = _cell(before, sampled[-1], state)
        before = _sum_with(before, cell)
        sampled.append(cell % VOCABULARY)
    return sampled


@dataclass(frozen=True, slots=True)
class ToyTokens:
    """Implements `pantheon.engine.step_runner.Tokens`."""

    ids: tuple[int, ...]

    def read(self) -> list[SampledToken]:
        return [SampledToken(token) for token in self.ids]


class ToyDevice:
    """Implements `pantheon.engine.step_runner.StepRunner`; what is dispatched runs at once."""

    def __init__(
        self,
        *,
        rows: int,
        pages: int,
        page_size: int,
        slots: int = 0,
        batches: tuple[int, ...] = (),
    ) -> None:
        """Fill every page and slot with garbage. With `slots` the layers are recurrent too."""
        self.recurrent = slots > 0
        self._shape = (pages, page_size)
        self._rows = rows
        self.batches = batches or (rows,)
        self._slots = slots
        self._garbage = np.random.default_rng(7)
        self.computed = 0
        """Prompt tokens prefilled: the last of each prompt is not."""
        self.chunks: list[tuple[int, int]] = []
        """Start and length of each chunk."""
        self.decoded: list[tuple[int, ...]] = []
        """Rows of each decode step."""
        self.reset()

    def reset(self) -> None:
        self.pages = self._garbage.integers(1 << 60, _MODULUS, self._shape)
        self.newest = [-1] * self._rows
        self.states = self._garbage.integers(1 << 60, _MODULUS, self._rows).tolist()
        self.kept_states = self._garbage.integers(1 << 60, _MODULUS, self._slots).tolist()

    def start_row(self, row: int, sampling: RowSampling) -> None:
        self.newest[row] = -1

    def copy_page(self, source: int, target: int) -> None:
        self.pages[target] = self.pages[source]

    def load_state(self, row: int, slot: int | None) -> None:
        assert slot is None or self.recurrent
        self.states[row] = 0 if slot is None else self.kept_states[slot]

    def save_state(self, row: int, slot: int) -> None:
        assert self.recurrent
        self.kept_states[slot] = self.states[row]

    def prefill(
        self,
        tokens: Sequence[int],
        start: int,
        pages: Sequence[int],
        row: int,
    ) -> ToyTokens:
        self.computed += len(tokens)
        self.chunks.append((start, len(tokens)))
        self._feed(tokens, start, pages, row)
        # Only what a decode step samples may be fed to the next.
        self.newest[row] = -1
        return ToyTokens(())

    def decode(
        self,
        rows: Sequence[int],
        positions: Sequence[int],
        pages: Sequence[Sequence[int]],
        sampling: Sequence[RowSampling],
        masks: Sequence[TokenMask | None],
        fed: Sequence[int | None],
        taken: Sequence[tuple[int, int]],
    ) -> ToyTokens:
        self.decoded.append(tuple(rows))
        sampled = []
        for row, at, held, token in zip(rows, positions, pages, fed, strict=True):
            newest = self.newest[row] if token is None else token
            assert newest >= 0, "a row with drafts, or before its first, knows no newest token"
            sampled.append(self._feed([newest], at, held, row))
        for row in {row for row in rows if rows.count(row) > 1}:
            assert not self.recurrent
            self.newest[row] = -1
        return ToyTokens(tuple(sampled))

    def read_page(self, page: int) -> list[np.ndarray]:
        return [self.pages[page].reshape(1, -1, 1)]

    def write_page(self, page: int, content: Sequence[np.ndarray]) -> None:
        self.pages[page] = content[0].reshape(-1)

    def read_state(self, slot: int) -> list[np.ndarray]:
        return [np.array([self.kept_states[slot]], np.int64)]

    def write_state(self, slot: int, content: Sequence[np.ndarray]) -> None:
        self.kept_states[slot] = int(content[0][0])

    def cells(self, pages: Sequence[int], count: int) -> list[int]:
        """What stands at the first `count` positions of a sequence with these pages."""
        values: list[int] = self.pages[list(pages)].reshape(-1)[:count].tolist()
        return values

    def _feed(self, tokens: Sequence[int], start: int, pages: Sequence[int], row: int) -> int:
        page_size = self._shape[1]
        held = self.pages[list(pages)].reshape(-1)[:start]
        before, state = zlib.crc32(held.tobytes()), self.states[row]
        for position, token in enumerate(tokens, start=start):
            state = _after(state, token) if self.recurrent else 0
            cell = _cell(before, token, state)
            self.pages[pages[position // page_size], position % page_size] = cell
            before = _sum_with(before, cell)
        self.states[row] = state
        self.newest[row] = cell % VOCABULARY
        return self.newest[row]


def execute(device: ToyDevice, plan: StepPlan) -> tuple[int, ...]:
    """Run a plan in its order; the tokens of its decode rows."""
    for save in plan.saves:
        device.save_state(save.row, save.slot)
    for start in plan.starts:
        device.start_row(start.row, GREEDY)
        device.load_state(start.row, start.load_state)
        if start.copy_page is not None:
            device.copy_page(*start.copy_page)
    decoded: tuple[int, ...] = ()
    if plan.decode:
        decoded = device.decode(
            [row.row for row in plan.decode],
            [row.position for row in plan.decode],
            [row.pages for row in plan.decode],
            [GREEDY] * len(plan.decode),
            [None] * len(plan.decode),
            [row.fed for row in plan.decode],
            (),
        ).ids
    chunk = plan.prefill
    if chunk is not None:
        device.prefill(chunk.tokens, chunk.start, chunk.pages, chunk.row)
        if chunk.save_state is not None:
            device.save_state(chunk.row, chunk.save_state)
    return decoded
