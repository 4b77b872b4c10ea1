"""Where the state of recurrent layers is kept, so that a later turn can resume.

Keys and values of a prefix can be cut at any token; a recurrent state cannot be rolled back. What
is kept are copies of it at chosen positions, the checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

CHECKPOINT_GRID: Final = 64
"""Tokens between the positions at which a prompt may be cut for a checkpoint."""

_NEWEST_KEPT: Final = 3
_KEPT_INSIDE_PROMPT: Final = 2
_FURTHER_KEPT: Final = 3
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


def worth_keeping(
    checkpoints: Iterable[Checkpoint], prompt_tokens: int, every: int
) -> tuple[Checkpoint, ...]:
    """Those that a conversation goes on with.

    The newest, for a turn that goes on; the last two inside the prompt, for one that drops the
    answer; and older ones for one that was edited: the further from the end the fewer, so that
    what is computed again is in proportion to what changed, and one every `every` tokens.
    """
    ordered = sorted(checkpoints, key=lambda checkpoint: checkpoint.tokens)
    inside = [one for one in ordered if one.tokens <= prompt_tokens]
    kept = {*ordered[-_NEWEST_KEPT:], *inside[-_KEPT_INSIDE_PROMPT:], *_ever_further(ordered)}
    older = [one for one in ordered if one not in kept and one.tokens % every == 0]
    kept.update(older[max(len(older) - (_MOST_KEPT - len(kept)), 0) :])
    return tuple(one for one in ordered if one in kept)


def _ever_further(ordered: Sequence[Checkpoint]) -> Iterator[Checkpoint]:
    """Of checkpoints in order the newest ones at twice and twice again the distance from the end;
    those furthest from it are left out where they would be too many."""
    if not ordered:
        return
    end, distance = ordered[-1].tokens, 2 * CHECKPOINT_GRID
    for _ in range(_FURTHER_KEPT):
        found = latest(ordered, end - distance)
        if found is None:
            return
        yield found
        distance = 2 * (end - found.tokens)


def latest(checkpoints: Iterable[Checkpoint], tokens: int) -> Checkpoint | None:
    """The one with the most tokens, at most `tokens`."""
    within = [checkpoint for checkpoint in checkpoints if checkpoint.tokens <= tokens]
    return max(within, key=lambda checkpoint: checkpoint.tokens, default=None)
