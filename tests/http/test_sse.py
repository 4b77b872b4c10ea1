"""Events as bytes (reference, streaming response)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from pantheon.generated.models import ModelUnloaded
from pantheon.generated.operations import SseComment, SseSentinel
from pantheon.http.sse import SseBody


class Events:
    """A stream that counts how often it is closed."""

    def __init__(self, *events: Any) -> None:
        self._events = iter(events)
        self.closed = 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._events)

    def close(self) -> None:
        self.closed += 1


def test_each_event_is_one_piece_of_bytes() -> None:
    events = Events(ModelUnloaded(unloaded='a\n"é'), SseComment("wait"), SseSentinel.DONE)
    assert list(SseBody(events, msgspec.json.encode)) == [
        'data: {"unloaded":"a\\n\\"é"}\n\n'.encode(),
        b": wait\n\n",
        b"data: [DONE]\n\n",
    ]


@pytest.mark.parametrize("taken", [0, 1, 2])
def test_events_are_closed_once_however_far_they_were_read(taken: int) -> None:
    events = Events(SseSentinel.DONE, SseSentinel.DONE)
    body = SseBody(events, msgspec.json.encode)
    for _ in range(taken):
        next(body)
    body.close()
    body.close()
    assert events.closed == 1
