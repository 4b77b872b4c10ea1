"""Numbers, and the words for the other values that JSON writes without marks."""

from __future__ import annotations

import math
import re
from typing import Final

MAX_NUMBER_CHARS: Final = 308
"""Longer numbers are refused: readers disagree about them, Python's refuses above 4300 digits."""

_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_VALUE: Final = re.compile(r"[+-]?(?:NaN|nan|Infinity|inf|\.?[0-9][A-Za-z0-9+\-.]*)")
_WORDS: Final = {
    "true": "true",
    "false": "false",
    "null": "null",
    "True": "true",
    "False": "false",
    "None": "null",
}


def json_word(word: str) -> str | None:
    """A number or word, the latter in JSON's or Python's spelling, as JSON; None for any other."""
    if word in _WORDS:
        return _WORDS[word]
    if len(word) > MAX_NUMBER_CHARS or not _NUMBER.fullmatch(word):
        return None
    return word if math.isfinite(float(word)) else None


def is_value(word: str) -> bool:
    """Whether a word that is no JSON is meant as a number all the same, such as NaN or 007."""
    return _VALUE.fullmatch(word) is not None
