"""Finding stop strings in a growing text, whatever pieces it comes in."""

from __future__ import annotations


class StopStrings:
    """Passes text on until a stop string appears.

    Text is held back only while it is a proper prefix of a stop string, so that no part of one
    is ever passed on and nothing else waits (reference, request body, `stop`).
    """

    def __init__(self, stops: tuple[str, ...]) -> None:
        """Watch for `stops`, none of them empty."""
        if "" in stops:
            raise ValueError("a stop string must not be empty")
        self._stops = stops
        self._held = ""
        self.found = False
        """True once a stop string appeared; the text ends before it."""

    def push(self, text: str) -> str:
        """Take more text; return what is certain to come before any stop string."""
        if self.found or not text:
            return ""
        text = self._held + text
        starts = ((text.find(stop), stop) for stop in self._stops)
        found = [(start + len(stop), start) for start, stop in starts if start >= 0]
        if found:
            self.found = True
            self._held = ""
            # The stop that is complete first, so that the pieces do not decide which it is.
            return text[: min(found)[1]]
        keep = max((overlap(text, stop) for stop in self._stops), default=0)
        split = len(text) - keep
        self._held = text[split:]
        return text[:split]

    def flush(self) -> str:
        """The text ended: return what was held back."""
        held, self._held = self._held, ""
        return held


def overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that is a proper prefix of `stop`: it may become it."""
    for size in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:size]):
            return size
    return 0
