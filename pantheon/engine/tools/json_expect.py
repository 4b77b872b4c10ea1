"""What may come next in a JSON object that is read mark by mark."""

from __future__ import annotations

from enum import Enum


class Expect(Enum):
    """A place in an object, between its values."""

    START = "start"
    KEY = "key or end"
    COLON = "colon"
    VALUE = "value"
    COMMA = "comma or end"
