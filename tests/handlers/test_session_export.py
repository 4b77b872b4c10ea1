"""The answer of `POST /admin/session/export`, whose blob is never held as a whole."""

from __future__ import annotations

import base64
import json
import tracemalloc
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pantheon.engine import (
    CompletionRequest,
    ModelNotFound,
    SessionBusy,
    SessionCachingDisabled,
    SessionExportUnsupported,
    SessionNotFound,
    SessionSnapshot,
)
from pantheon.engine.testing import ScriptedEngine
from pantheon.generated.models import SessionExport, SessionExportParams
from pantheon.generated.operations import ExportSession200Json, ExportSessionRequest
from pantheon.handlers.session_export import EncodedExport, export_session
from tests.handlers.calls import Client, create


def export(engine: ScriptedEngine, session_id: str = "s", name: str | None = None) -> EncodedExport:
    params = SessionExportParams(session_id=session_id, name=name or msgspec.UNSET)
    response = export_session(engine, ExportSessionRequest(client=Client(), body=params))
    assert isinstance(response, ExportSession200Json)
    assert isinstance(response.body, EncodedExport)
    return response.body


@given(
    session_id=st.text(min_size=1),
    pieces=st.lists(st.binary(max_size=20), max_size=8),
    tokens=st.lists(st.integers(0, 2**31 - 1)),
    version=st.integers(0, 2**53 - 1),
)
def test_pieces_join_to_the_body_of_the_reference(
    session_id: str, pieces: Sequence[bytes], tokens: list[int], version: int
) -> None:
    """Whatever the lengths of the pieces and whatever the session is called."""
    body = EncodedExport(session_id, SessionSnapshot(version, tuple(tokens), pieces))
    length = body.length
    data = b"".join(body)
    assert len(data) == length
    blob = b"".join(pieces)
    expected = {
        "session_id": session_id,
        "weights_version": version,
        "n_tok": len(tokens),
        "blob_bytes": len(blob),
        "blob_b64": base64.b64encode(blob).decode(),
        "tokens": tokens,
    }
    assert json.loads(data) == expected
    # The order of the members is that of the reference.
    assert list(json.loads(data)) == list(expected)
    assert msgspec.json.decode(data, type=SessionExport).n_tok == len(tokens)


def test_session_called_like_the_blob_member_is_no_blob() -> None:
    name = '"blob_b64":""'
    body = EncodedExport(name, SessionSnapshot(1, (1,), [b"abcd"]))
    assert json.loads(b"".join(body))["session_id"] == name


def test_pieces_may_be_views_of_any_item_size() -> None:
    view = memoryview(bytes(range(24))).cast("f")
    body = EncodedExport("s", SessionSnapshot(1, (1,), [b"x", view]))
    assert base64.b64decode(json.loads(b"".join(body))["blob_b64"]) == b"x" + bytes(range(24))


def test_large_blob_is_neither_copied_nor_kept() -> None:
    """Beside the blob a few pieces of it are alive at any time, and what is sent is freed."""
    size, count = 4 * 2**20 + 1, 8
    tracemalloc.start()
    try:
        body = EncodedExport("s", SessionSnapshot(1, (), [bytes(size) for _ in range(count)]))
        held, _ = tracemalloc.get_traced_memory()
        assert held >= size * count
        tracemalloc.reset_peak()
        sent = 0
        for piece in body:
            sent += len(piece)
        left, peak = tracemalloc.get_traced_memory()
        assert sent == body.length
        assert peak < held + 8 * 2**20
        assert left < 2**20
    finally:
        tracemalloc.stop()


def test_session_of_a_chat_is_exported() -> None:
    engine = ScriptedEngine()
    create(engine, session_id="s")
    body = json.loads(b"".join(export(engine)))
    assert body["session_id"] == "s"
    assert body["n_tok"] == len(body["tokens"]) == 5


def test_refusals() -> None:
    with pytest.raises(SessionNotFound):
        export(ScriptedEngine())
    with pytest.raises(ModelNotFound):
        export(ScriptedEngine(), name="nope")
    with pytest.raises(SessionCachingDisabled):
        export(ScriptedEngine(without_sessions={"scripted"}))
    with pytest.raises(SessionExportUnsupported):
        export(ScriptedEngine(without_snapshots={"scripted"}))


def test_session_in_a_turn_is_busy() -> None:
    engine = ScriptedEngine()
    request = CompletionRequest(
        model=None, messages=({"role": "user", "content": "x"},), session_id="s"
    )
    turn = engine.submit(request)
    with pytest.raises(SessionBusy):
        export(engine)
    turn.cancel()
    with pytest.raises(SessionNotFound):
        export(engine)
