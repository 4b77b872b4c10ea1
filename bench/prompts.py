"""Prompts that are all different, and the same in every run."""

from __future__ import annotations

import random
from typing import Final

_TEXT: Final = (
    "river stone garden window paper music forest letter winter bridge summer engine market "
    "silver doctor island kitchen village mountain morning picture station teacher weather "
    "animal bottle castle corner desert farmer flower harbor ladder machine ocean pencil "
    "prison rocket school shadow ship street table temple tower train valley wall water yellow"
)
_WORDS: Final = tuple(_TEXT.split())


class Prompts:
    """A source of prompts; no two of one source are alike, nor begin alike for long."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def words(self, count: int) -> str:
        """`count` words without sense, to be read."""
        return " ".join(self._random.choices(_WORDS, k=count))

    def story(self) -> str:
        """A wish for a long answer."""
        one, two, three = self._random.sample(_WORDS, 3)
        return f"Write a very long story about a {one}, a {two} and a {three}."
