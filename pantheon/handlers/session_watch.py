"""`GET /session/watch` over an engine: a stream that holds a session for as long as it is open."""

from __future__ import annotations

import time
from typing import Final

from pantheon.engine import Engine, ModelNotFound, Watch
from pantheon.generated.operations import (
    ClientConnection,
    SseComment,
    WatchSession200EventStream,
    WatchSessionRequest,
    WatchSessionResponse,
)
from pantheon.handlers.chat_stream import KEEPALIVE
from pantheon.handlers.session_id import model_name, required_session_id

POLL_SECONDS: Final = 0.25
"""Longest wait for the end of a watch before the client's connection is looked at again."""

ESTABLISHED: Final = SseComment("watch established")


def watch_session(
    engine: Engine, request: WatchSessionRequest, keepalive_s: float
) -> WatchSessionResponse:
    """Hold a session while the client is connected.

    Nothing is held for HEAD: a watch that ends at once would begin the grace period of a session
    that nobody meant to give up.

    Args:
        engine: whose session it is.
        request: which session.
        keepalive_s: seconds of silence after which a comment is sent; 0 sends none.

    Raises:
        EngineError: see `Engine.watch_session`; InvalidRequest without a session id.
    """
    session_id = required_session_id(request.session_id, request.x_session_id)
    name = model_name(request.name)
    if not request.head:
        watch = engine.watch_session(name, session_id)
        return WatchSession200EventStream(WatchStream(watch, request.client, keepalive_s))
    if not engine.prefill_rate(name).model:
        raise ModelNotFound("name must be that of a loaded model (see /v1/models)")
    return WatchSession200EventStream(comment for comment in (ESTABLISHED,))


class WatchStream:
    """The events of one watch, which ends with it.

    A class and not a generator: `close` must let go also when no event was ever asked for.
    """

    def __init__(self, watch: Watch, client: ClientConnection, keepalive_s: float) -> None:
        """Stream `watch`, which the stream owns from now on."""
        self._watch = watch
        self._client = client
        self._keepalive_s = keepalive_s
        self._poll_s = min(POLL_SECONDS, keepalive_s or POLL_SECONDS)
        self._sent_at: float | None = None
        self._closed = False

    def __iter__(self) -> WatchStream:
        return self

    def __next__(self) -> SseComment:
        """The comment that the watch is established, then those that keep it alive, if any."""
        if self._closed:
            raise StopIteration
        if self._sent_at is None:
            self._sent_at = time.monotonic()
            return ESTABLISHED
        while not self._client.is_gone() and not self._watch.wait_ended(self._poll_s):
            if self._keepalive_s and time.monotonic() - self._sent_at >= self._keepalive_s:
                self._sent_at = time.monotonic()
                return KEEPALIVE
        # The end of the stream makes the server call `close`, which lets go.
        raise StopIteration

    def close(self) -> None:
        """Let the session go. Idempotent."""
        if not self._closed:
            self._closed = True
            self._watch.close()
