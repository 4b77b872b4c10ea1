"""From sampled tokens to the text of an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pantheon.engine.events import FinishReason
from pantheon.engine.stop_strings import StopStrings


class Decoder(Protocol):
    """Turns token ids into text, whole characters at a time."""

    def push(self, token_id: int) -> str:
        """Take a token; return the text that is certain now."""
        ...

    def flush(self) -> str:
        """The tokens ended: return what is left."""
        ...


@dataclass(frozen=True, slots=True)
class Step:
    """What one token adds: text, and the reason when it is the last."""

    text: str
    finish_reason: FinishReason | None


class Answer:
    """One answer as it grows: detokenise, then look for stop strings, then for the end."""

    def __init__(
        self, decoder: Decoder, stops: tuple[str, ...], end_tokens: frozenset[int], limit: int
    ) -> None:
        """Start an answer of at most `limit` tokens that ends at any of `end_tokens`."""
        self._decoder = decoder
        self._stops = StopStrings(stops)
        self._end_tokens = end_tokens
        self._limit = limit
        self.tokens = 0
        """Tokens taken so far, an end token included."""

    def push(self, token_id: int) -> Step:
        """Take the next token. After a step with a finish reason nothing may follow."""
        self.tokens += 1
        if token_id in self._end_tokens:
            return self._end("stop")
        text = self._stops.push(self._decoder.push(token_id))
        if self._stops.found:
            return Step(text, "stop")
        if self.tokens == self._limit:
            end = self._end("length")
            return Step(text + end.text, end.finish_reason)
        return Step(text, None)

    def _end(self, reason: FinishReason) -> Step:
        text = self._stops.push(self._decoder.flush())
        if self._stops.found:
            return Step(text, "stop")
        return Step(text + self._stops.flush(), reason)
