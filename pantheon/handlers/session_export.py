"""`POST /admin/session/export` over an engine.

A blob may have hundreds of megabytes, so the answer is never made as a whole: its JSON is written
around the blob, whose base64 is made piece by piece as the client takes it.
"""

from __future__ import annotations

import binascii
from collections import deque
from collections.abc import Iterator
from typing import Final

import msgspec

from pantheon.engine import Engine, SessionSnapshot
from pantheon.generated.models import SessionExport
from pantheon.generated.operations import (
    ExportSession200Json,
    ExportSessionRequest,
    ExportSessionResponse,
)
from pantheon.handlers.session_id import model_name

_STEP: Final = 3 * 256 * 1024
"""Bytes of the blob that are encoded at once."""

_NO_BLOB: Final = b'"blob_b64":""'
"""The member of an answer with an empty blob. No text inside JSON holds it, quotes being escaped
there."""


def export_session(engine: Engine, request: ExportSessionRequest) -> ExportSessionResponse:
    """Read a session out of the cache.

    Raises:
        EngineError: see `Engine.export_session`.
    """
    session_id = request.body.session_id
    snapshot = engine.export_session(model_name(request.body.name), session_id)
    return ExportSession200Json(EncodedExport(session_id, snapshot))


class EncodedExport:
    """A `SessionExport` as JSON in pieces; implements the generated `EncodedBody`."""

    def __init__(self, session_id: str, snapshot: SessionSnapshot) -> None:
        """Encode what is small; the blob's pieces are taken from `snapshot` one by one."""
        answer = SessionExport(
            session_id=session_id,
            weights_version=snapshot.weights_version,
            n_tok=len(snapshot.tokens),
            blob_bytes=snapshot.blob_bytes,
            blob_b64="",
            tokens=list(snapshot.tokens),
        )
        before, member, after = msgspec.json.encode(answer).partition(_NO_BLOB)
        self._before, self._after = before + member[:-1], member[-1:] + after
        self._blob = deque(snapshot.blob)
        self._encoded_bytes = -(-snapshot.blob_bytes // 3) * 4

    @property
    def length(self) -> int:
        """Bytes of the whole JSON text."""
        return len(self._before) + self._encoded_bytes + len(self._after)

    def __iter__(self) -> Iterator[bytes]:
        """The JSON text in pieces. Each piece of the blob is let go when it has been encoded."""
        yield self._before
        carried = b""
        while self._blob:
            piece = memoryview(self._blob.popleft()).cast("B")
            for start in range(0, len(piece), _STEP):
                data = carried + piece[start : start + _STEP]
                whole = len(data) - len(data) % 3
                carried = data[whole:]
                if whole:
                    yield binascii.b2a_base64(data[:whole], newline=False)
        if carried:
            yield binascii.b2a_base64(carried, newline=False)
        yield self._after
