"""Where the state of recurrent layers is kept, so that a later turn can resume.

Keys and values of a prefix can be cut at any token; a recurrent state cannot be rolled back. What
is kept are copies of it at chosen positions, the checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

CHECKPOINT_GRID: Final = 64
"""Tokens between the positions at which a prompt may be cut for a checkpoint."""

_NEWEST_KEPT: Final = 4
_MOST_KEPT: Final = 16


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state after `tokens` tokens, kept in `slot`."""

    tokens: int
    slot: int


def checkpoint_positions(start: int, prompt_tokens: int, every: int) -> tuple[int, ...]:
    """Where to keep the state while the tokens from `start` on are prefilled.

    The last two places on the grid before the prompt's end: a later prompt that parts from this
    one within its last tokens (a generation prompt, a dropped answer) resumes at most 64 tokens
    before that point. And every `every` tokens, for what parts earlier.

    Args:
        every: a multiple of `CHECKPOINT_GRID`.
    """
    last = (prompt_tokens - 1) // CHECKPOINT_GRID * CHECKPOINT_GRID
    wanted = {*range(every, prompt_tokens, every), last - CHECKPOINT_GRID, last}
    return tuple(sorted(position for position in wanted if start < position < prompt_tokens))


def worth_keeping(checkpoints: Iterable[Checkpoint], every: int) -> tuple[Checkpoint, ...]:
    """Those that a conversation goes on with: the newest, and the older ones every `every`."""
    ordered = sorted(checkpoints, key=lambda checkpoint: checkpoint.tokens)
    newest = ordered[-_NEWEST_KEPT:]
    older = [old for old in ordered[:-_NEWEST_KEPT] if old.tokens % every == 0]
    return (*older[-(_MOST_KEPT - _NEWEST_KEPT) :], *newest)


def latest(checkpoints: Iterable[Checkpoint], tokens: int) -> Checkpoint | None:
    """The one with the most tokens, at most `tokens`."""
    within = [checkpoint for checkpoint in checkpoints if checkpoint.tokens <= tokens]
    return max(within, key=lambda checkpoint: checkpoint.tokens, default=None)
