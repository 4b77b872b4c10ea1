"""Steps on their way: planned for generations, dispatched, not yet read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pantheon.engine.generation import Generation
from pantheon.engine.sampled_token import SampledToken
from pantheon.engine.scheduler import DecodeRow, PrefillChunk, StateSave
from pantheon.engine.step_runner import Tokens


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A planned step with the generations it is for."""

    prefill: tuple[Generation, PrefillChunk] | None
    decode: tuple[tuple[Generation, DecodeRow], ...]
    saves: tuple[StateSave, ...]


class InFlight:
    """Dispatched work whose tokens nobody has read."""

    def __init__(self, step: PlannedStep, dispatched_at: float) -> None:
        """Start with no part of `step` dispatched."""
        self.step = step
        self.dispatched_at = dispatched_at
        self._parts: list[tuple[tuple[Generation, ...], Tokens]] = []

    def add(self, generations: tuple[Generation, ...], tokens: Tokens) -> None:
        """Add a part of the step; only what samples for somebody is told."""
        self._parts.append((generations, tokens))

    @property
    def must_be_read(self) -> bool:
        """True when the next step of some generation depends on the tokens of this one."""
        return any(
            generation.waits_for_its_token and not generation.sequence.over
            for generations, _ in self._parts
            for generation in generations
        )

    def read(self) -> Iterator[tuple[Generation, SampledToken]]:
        """Wait for the tokens and give each to whom it belongs."""
        for generations, tokens in self._parts:
            yield from zip(generations, tokens.read(), strict=False)
