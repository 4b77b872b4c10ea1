"""Steps on their way: planned for generations, dispatched, not yet read."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from pantheon.engine.batches import holding
from pantheon.engine.generation import Generation
from pantheon.engine.sampled_token import SampledToken
from pantheon.engine.scheduler import DecodeRow, PrefillChunk, RowStart, StateSave
from pantheon.engine.step_entries import step_entries
from pantheon.engine.step_runner import StepRunner, Tokens


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A planned step with the generations it is for."""

    prefill: PrefillChunk | None
    decode: tuple[tuple[Generation, DecodeRow], ...]
    saves: tuple[StateSave, ...]
    starts: tuple[tuple[Generation, RowStart], ...]


class InFlight:
    """Dispatched work whose tokens nobody has read."""

    def __init__(self, step: PlannedStep, dispatched_at: float) -> None:
        """Start with no part of `step` dispatched."""
        self.step = step
        self.dispatched_at = dispatched_at
        self.batch = 0
        """Entries of the compiled decode step in it; 0 where none is."""
        self._parts: list[tuple[tuple[tuple[Generation, int], ...], Tokens]] = []

    def add(self, samples: tuple[tuple[Generation, int], ...], tokens: Tokens) -> None:
        """Add a part of the step.

        Args:
            samples: for whom it samples, and how many tokens, in the order of `tokens`, whose
                rest is for nobody.
        """
        self._parts.append((samples, tokens))

    @property
    def must_be_read(self) -> bool:
        """True when the next step of some generation depends on the tokens of this one."""
        return any(
            generation.waits_for_its_token and not generation.sequence.over
            for samples, _ in self._parts
            for generation, _ in samples
        )

    def read(self) -> Iterator[tuple[Generation, list[SampledToken]]]:
        """Wait for the tokens; for each generation its own: one, and one for each draft."""
        for samples, tokens in self._parts:
            read = iter(tokens.read())
            for generation, count in samples:
                yield generation, list(itertools.islice(read, count))


def dispatch(step: PlannedStep, runner: StepRunner, now: float) -> InFlight:
    """Hand a step to the device.

    Args:
        now: seconds, by the clock of who measures it.
    """
    in_flight = InFlight(step, now)
    for save in step.saves:
        runner.save_state(save.row, save.slot)
    for generation, start in step.starts:
        runner.start_row(start.row, generation.sampling)
        runner.load_state(start.row, start.load_state)
        if start.copy_page is not None:
            runner.copy_page(*start.copy_page)
    if step.decode:
        entries = step_entries(step.decode)
        samples = tuple((generation, 1 + len(row.drafts)) for generation, row in step.decode)
        in_flight.add(samples, runner.decode(*entries))
        in_flight.batch = holding(len(entries.rows), runner.batches)
    if step.prefill is not None:
        chunk = step.prefill
        in_flight.add((), runner.prefill(chunk.tokens, chunk.start, chunk.pages, chunk.row))
        if chunk.save_state is not None:
            runner.save_state(chunk.row, chunk.save_state)
    return in_flight
