"""Finding an answer again in the prompt of the next turn.

A client sends an answer back as text, and encoding that text need not give the tokens that were
sampled. Their KV would be lost without a word. So the text is compared, token by token spelled
out, and where an answer is found again its own tokens stand in the prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol


class History(Protocol):
    """What is known of an earlier turn; `Conversation` is one."""

    @property
    def tokens(self) -> tuple[int, ...]:
        """Its prompt and its answer."""
        ...

    @property
    def answer_ends(self) -> tuple[int, ...]:
        """Numbers of leading tokens at which an answer ends, rising."""
        ...


@dataclass(frozen=True, slots=True)
class Continued:
    """A prompt in which sampled tokens stand for the answers that were found again.

    Attributes:
        answer_ends: numbers of leading tokens at which one of them ends, rising.
    """

    tokens: tuple[int, ...]
    answer_ends: tuple[int, ...] = ()


def continue_history(
    prompt: Sequence[int],
    histories: Iterable[History],
    spell: Callable[[Sequence[int]], list[bytes]],
) -> Continued:
    """Put the sampled tokens of the longest history that a prompt continues into the prompt.

    Args:
        prompt: a conversation as the tokenizer encodes it.
        histories: earlier turns.
        spell: gives for each of some tokens its text as bytes; those of a control token are of
            no other's, and some may be empty. Leading tokens are spelled as they are in the whole.
    """
    ends: dict[int, int] | None = None
    text = b""
    best = Continued(tuple(prompt))
    best_length = 0
    for history in histories:
        if not history.answer_ends:
            continue
        if ends is None:
            spelled = spell(prompt)
            text = b"".join(spelled)
            ends = {}
            for place, end in enumerate(accumulate(map(len, spelled)), start=1):
                # The first place: a token without text belongs to what follows.
                ends.setdefault(end, place)
        spelled_history = spell(history.tokens)
        for count in reversed(history.answer_ends):
            before = b"".join(spelled_history[:count])
            if len(before) <= best_length:
                break
            following = ends.get(len(before))
            if following is not None and text.startswith(before):
                tokens = history.tokens[:count] + tuple(prompt[following:])
                kept = tuple(end for end in history.answer_ends if end <= count)
                best, best_length = Continued(tokens, kept), len(before)
                break
    return best
