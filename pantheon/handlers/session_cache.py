"""`POST /session/restore` and `POST /session/release` over an engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pantheon.engine import BadSessionBlob, Engine
from pantheon.generated.models import SessionReleased, SessionRestored
from pantheon.generated.operations import (
    ReleaseSession200Json,
    ReleaseSessionRequest,
    ReleaseSessionResponse,
    RestoreSession200Json,
    RestoreSessionRequest,
    RestoreSessionResponse,
)
from pantheon.handlers.session_id import model_name, required_session_id

_TOKEN_IDS: Final = 2**31
_BESIDE_THE_BLOB: Final = 8 * 1024 * 1024
"""Bytes of a body beside its blob: as many tokens as its JSON may hold values, of up to ten digits
with a comma and a blank, and the names."""


def restore_session(engine: Engine, request: RestoreSessionRequest) -> RestoreSessionResponse:
    """Put an exported session into the cache.

    Raises:
        EngineError: see `Engine.restore_session`; InvalidRequest without a session id.
    """
    body = request.body
    session_id = required_session_id(body.session_id, request.x_session_id)
    if not body.blob:
        raise BadSessionBlob("blob: expected an exported blob in strict base64")
    _check_tokens(body.tokens)
    held = engine.restore_session(model_name(body.name), session_id, body.blob, body.tokens)
    return RestoreSession200Json(SessionRestored(session_id=session_id, n_tok=held))


def largest_restore_body(engine: Engine) -> int:
    """Bytes of the largest body with which a session can be restored."""
    return -(-engine.largest_blob_bytes() // 3) * 4 + _BESIDE_THE_BLOB


def release_session(engine: Engine, request: ReleaseSessionRequest) -> ReleaseSessionResponse:
    """Free a session.

    Raises:
        EngineError: see `Engine.release_session`; InvalidRequest without a session id.
    """
    session_id = required_session_id(request.body.session_id, request.x_session_id)
    engine.release_session(model_name(request.body.name), session_id)
    return ReleaseSession200Json(SessionReleased(session_id=session_id))


def _check_tokens(tokens: Sequence[int]) -> None:
    """Refuse what is no token of any model, before it meets an array of a fixed width."""
    if tokens and not (min(tokens) >= 0 and max(tokens) < _TOKEN_IDS):
        wrong = next(token for token in tokens if not 0 <= token < _TOKEN_IDS)
        raise BadSessionBlob(f"tokens: expected ids from 0 to {_TOKEN_IDS - 1}, got {wrong!s:.40}")
