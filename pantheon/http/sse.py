"""Server-sent events as bytes (reference, streaming response)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from pantheon.generated.operations import EventStream, SseComment, SseSentinel

CONTENT_TYPE = "text/event-stream"


class SseBody:
    """The WSGI body of a stream: one piece of bytes per event, sent as soon as it is made."""

    def __init__(
        self,
        events: EventStream[msgspec.Struct | SseComment | SseSentinel],
        encode: Callable[[msgspec.Struct], bytes],
    ) -> None:
        self._events = events
        self._encode = encode
        self._closed = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        match next(self._events):
            case SseComment(text):
                return f": {text}\n\n".encode()
            case SseSentinel() as sentinel:
                return f"data: {sentinel.value}\n\n".encode()
            case event:
                return b"data: " + self._encode(event) + b"\n\n"

    def close(self) -> None:
        """End the events. The server calls it once, whether or not it came to the last one."""
        if not self._closed:
            self._closed = True
            self._events.close()
