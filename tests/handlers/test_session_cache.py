"""`POST /session/restore` and `POST /session/release` (reference, session routes)."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from pantheon.engine import (
    BadSessionBlob,
    InvalidRequest,
    ModelNotFound,
    SessionCachingDisabled,
    SessionCapacity,
    SessionNotFound,
    WeightsVersionMismatch,
)
from pantheon.engine.testing import ScriptedEngine, scripted_model
from pantheon.generated.models import SessionReleaseParams, SessionRestoreParams
from pantheon.generated.operations import (
    ReleaseSession200Json,
    ReleaseSessionRequest,
    RestoreSession200Json,
    RestoreSessionRequest,
)
from pantheon.generated.parsing import to_model
from pantheon.handlers.session_cache import (
    largest_restore_body,
    release_session,
    restore_session,
)
from pantheon.handlers.session_export import EncodedExport
from tests.handlers.calls import Client, create


def exported(engine: ScriptedEngine, session_id: str = "s") -> dict[str, Any]:
    """The body that restores a session."""
    body = json.loads(b"".join(EncodedExport(session_id, engine.export_session(None, session_id))))
    return {"blob": body["blob_b64"], "tokens": body["tokens"]}


def restore(engine: ScriptedEngine, header: str | None = None, **body: Any) -> Any:
    params = to_model(body, SessionRestoreParams)
    request = RestoreSessionRequest(client=Client(), body=params, x_session_id=header)
    response = restore_session(engine, request)
    assert isinstance(response, RestoreSession200Json)
    return response.body


def release(engine: ScriptedEngine, header: str | None = None, **body: Any) -> Any:
    params = to_model(body, SessionReleaseParams)
    request = ReleaseSessionRequest(client=Client(), body=params, x_session_id=header)
    response = release_session(engine, request)
    assert isinstance(response, ReleaseSession200Json)
    return response.body


@pytest.fixture
def engine() -> ScriptedEngine:
    """An engine whose session `s` has had one turn of five tokens."""
    engine = ScriptedEngine()
    create(engine, session_id="s")
    return engine


def test_restored_session_is_resumed_from(engine: ScriptedEngine) -> None:
    body = exported(engine)
    other = ScriptedEngine()
    answer = restore(other, session_id="t", **body)
    assert (answer.restored, answer.session_id, answer.n_tok) == (True, "t", 5)
    assert exported(other, "t") == body
    turns = [{"role": "user", "content": "one two"}, {"role": "user", "content": "three"}]
    usage = create(other, session_id="t", messages=turns).body.usage
    assert usage.prompt_tokens_details.cached_tokens == 3


@pytest.mark.parametrize(
    ("given", "header", "used"),
    [
        ({"session_id": "body"}, "header", "body"),
        ({"session_id": ""}, "header", "header"),
        ({"session_id": 7}, "header", "header"),
        ({}, "header", "header"),
    ],
)
def test_session_of_the_body_comes_before_the_header(
    engine: ScriptedEngine, given: dict[str, Any], header: str, used: str
) -> None:
    assert restore(engine, header, **exported(engine), **given).session_id == used
    assert release(engine, header, **given).session_id == used
    with pytest.raises(SessionNotFound):
        engine.export_session(None, used)


@pytest.mark.parametrize("header", [None, ""])
def test_no_session_id_is_refused(engine: ScriptedEngine, header: str | None) -> None:
    with pytest.raises(InvalidRequest, match="session_id"):
        restore(engine, header, **exported(engine), session_id="")
    with pytest.raises(InvalidRequest, match="session_id"):
        release(engine, header)


def test_release_is_idempotent_and_knows_models(engine: ScriptedEngine) -> None:
    for _ in range(2):
        assert release(engine, session_id="s").released is True
    assert release(ScriptedEngine(without_sessions={"scripted"}), session_id="s").released
    with pytest.raises(ModelNotFound):
        release(engine, session_id="s", name="nope")
    assert release(engine, session_id="s", name="").released


def corrupted(blob: str, at: int) -> str:
    data = bytearray(base64.b64decode(blob))
    data[at] ^= 1
    return base64.b64encode(data).decode()


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body | {"blob": ""},
        lambda body: body | {"blob": "not base64!"},
        lambda body: body | {"blob": body["blob"][:-1]},
        lambda body: body | {"blob": body["blob"][:8]},
        lambda body: body | {"blob": body["blob"] + body["blob"]},
        lambda body: body | {"blob": corrupted(body["blob"], 0)},
        lambda body: body | {"blob": corrupted(body["blob"], -1)},
        lambda body: body | {"tokens": []},
        lambda body: body | {"tokens": body["tokens"][:-1]},
        lambda body: body | {"tokens": [*body["tokens"], 1]},
        lambda body: body | {"tokens": [-1, *body["tokens"][1:]]},
        lambda body: body | {"tokens": [2**31, *body["tokens"][1:]]},
        lambda body: body | {"tokens": [10**300, *body["tokens"][1:]]},
    ],
)
def test_what_does_not_fit_is_a_bad_blob_and_changes_nothing(
    engine: ScriptedEngine, change: Any
) -> None:
    """Scenario of a damaged blob restored over a live session: the session is what it was."""
    body = exported(engine)
    with pytest.raises(BadSessionBlob) as caught:
        restore(engine, session_id="s", **change(body))
    assert len(str(caught.value)) < 200
    assert exported(engine) == body


def test_refusals(engine: ScriptedEngine) -> None:
    body = exported(engine)
    with pytest.raises(ModelNotFound):
        restore(engine, session_id="s", name="nope", **body)
    with pytest.raises(SessionCachingDisabled):
        restore(ScriptedEngine(without_sessions={"scripted"}), session_id="s", **body)
    with pytest.raises(WeightsVersionMismatch):
        restore(ScriptedEngine([scripted_model("other")]), session_id="s", **body)
    full = ScriptedEngine([scripted_model(rows=1)])
    create(full, session_id="first")
    with pytest.raises(SessionCapacity) as caught:
        restore(full, session_id="second", **body)
    assert caught.value.retry_after == 30


def test_largest_body_holds_the_largest_blob_and_its_tokens() -> None:
    class Large(ScriptedEngine):
        def largest_blob_bytes(self) -> int:
            return 300_000_001

    tokens = len(json.dumps([2**31 - 1] * 262_144, indent=0))
    assert largest_restore_body(Large()) >= 400_000_004 + tokens
    assert largest_restore_body(ScriptedEngine([])) < 16 * 2**20
