"""A conversation whose KV is kept between its turns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pantheon.engine.cache.checkpoints import Checkpoint

_GENERATION_PROMPT_TOKENS = 16
"""Most tokens with which a template opens an assistant turn, a think block included."""

_PIECE = 512


@dataclass(frozen=True, slots=True, eq=False)
class Conversation:
    """What a turn has left behind. It holds its pages and slots until the cache forgets it.

    Attributes:
        tokens: the turn's prompt and what was sampled.
        held: leading tokens whose KV the pages hold.
        prompt_tokens: leading tokens that were the prompt.
        answer_ends: numbers of leading tokens at which a sampled answer ends, rising.
        pages: in order; no one writes to them.
        checkpoints: states of recurrent layers, none for a model without such layers.
    """

    tokens: tuple[int, ...]
    held: int
    prompt_tokens: int
    answer_ends: tuple[int, ...]
    pages: tuple[int, ...]
    checkpoints: tuple[Checkpoint, ...] = ()

    def is_continued_at(self, tokens: int) -> bool:
        """Whether a prompt that shares `tokens` leading tokens is this conversation's next turn.

        It is when it has the whole prompt of the last turn, perhaps without the opening of the
        answer: the client has gone on, has left the answer's reasoning out, or tries again.
        A short prompt is not mistaken for another for the sake of a common beginning.
        """
        opening = min(_GENERATION_PROMPT_TOKENS, self.prompt_tokens // 2)
        return tokens >= min(self.held, self.prompt_tokens - opening)


def common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """How many leading tokens two histories share."""
    most = min(len(left), len(right))
    start = 0
    # Slices are compared in C; only the piece that differs is walked.
    while start < most and left[start : start + _PIECE] == right[start : start + _PIECE]:
        start += _PIECE
    while start < most and left[start] == right[start]:
        start += 1
    return min(start, most)


def shared_tokens(
    tokens: Sequence[int], conversations: Iterable[Conversation]
) -> dict[Conversation, int]:
    """Of how many leading tokens each conversation holds the KV."""
    return {
        conversation: common_prefix(tokens, conversation.tokens[: conversation.held])
        for conversation in conversations
    }


def continued(shares: Mapping[Conversation, int]) -> Conversation | None:
    """The conversation that shares most, if what shares so many tokens is its next turn."""
    nearest = max(shares, key=shares.__getitem__, default=None)
    if nearest is None or not nearest.is_continued_at(shares[nearest]):
        return None
    return nearest
