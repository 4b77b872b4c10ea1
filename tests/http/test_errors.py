"""The table from errors to responses (reference, error responses and error body format)."""

from __future__ import annotations

import inspect
import json

import pytest
from gunicorn.http import errors as gunicorn_errors

from pantheon import engine
from pantheon.engine import errors as engine_errors
from pantheon.http.bounded_socket import RequestIncomplete
from pantheon.http.errors import UNKNOWN_ROUTE, ErrorAnswer, engine_answer
from pantheon.http.protocol_errors import protocol_answer, raw_response

ROWS = [
    (engine.InvalidRequest("m"), 400, "invalid_request_error", None),
    (engine.ModelNotFound("m"), 404, "model_not_found", None),
    (engine.ContextOverBudget(2, 1), 422, "context_over_budget", None),
    (engine.ServerBusy("m"), 429, "server_busy", None),
    (engine.ServerBusy("m", retry_after=3), 429, "server_busy", 3),
    (engine.NoModelsLoaded("m"), 503, "no_models_loaded", None),
    (engine.ServerMemoryConstrained("m"), 503, "server_memory_constrained", None),
    (engine.ServerShuttingDown("m"), 503, "server_shutting_down", 1),
    (engine.GenerationFailed("m"), 500, "server_error", None),
    (engine.SessionCapacity("m"), 429, "model_at_session_capacity", 30),
    (engine.SessionNotFound("m"), 404, "session_not_found", None),
    (engine.SessionBusy("m"), 429, "session_busy", None),
    (engine.SessionCachingDisabled("m"), 400, "session_caching_disabled", None),
    (engine.SessionExportUnsupported("m"), 400, "session_export_unsupported", None),
    (engine.BadSessionBlob("m"), 400, "bad_session_blob", None),
    (engine.WeightsVersionMismatch("m"), 409, "weights_version_mismatch", None),
    (engine.WatchUnavailable("m"), 503, "watch_unavailable", None),
    (engine.LoadFailed(engine.LoadFailure.NO_ACCELERATOR, "m"), 400, "load_failed", None),
    (engine.LoadFailed(engine.LoadFailure.FILE_NOT_FOUND, "m"), 404, "load_failed", None),
    (engine.LoadFailed(engine.LoadFailure.CONFLICT, "m"), 409, "load_failed", None),
    (engine.LoadFailed(engine.LoadFailure.OTHER, "m"), 500, "load_failed", None),
    (engine.LoadFailed(engine.LoadFailure.NO_CAPACITY, "m"), 507, "load_failed", None),
    (engine.UnloadFailed(engine.UnloadFailure.NOT_LOADED, "m"), 404, "unload_failed", None),
    (engine.UnloadFailed(engine.UnloadFailure.CONFLICT, "m"), 409, "unload_failed", None),
    (engine.UnloadFailed(engine.UnloadFailure.OTHER, "m"), 500, "unload_failed", None),
]


@pytest.mark.parametrize(
    ("error", "status", "kind", "retry_after"), ROWS, ids=[type(row[0]).__name__ for row in ROWS]
)
def test_engine_error_has_its_row(
    error: engine.EngineError, status: int, kind: str, retry_after: int | None
) -> None:
    answer = engine_answer(error)
    assert (answer.status, answer.type, answer.retry_after) == (status, kind, retry_after)
    assert answer.message == str(error)


def test_every_engine_error_has_a_row() -> None:
    classes = {
        cls
        for _, cls in inspect.getmembers(engine_errors, inspect.isclass)
        if issubclass(cls, engine.EngineError)
    }
    assert classes - {type(row[0]) for row in ROWS} == {engine.EngineError}
    failures = {row[0].failure for row in ROWS if hasattr(row[0], "failure")}
    assert failures == {*engine.LoadFailure, *engine.UnloadFailure}


def test_subclass_takes_the_row_of_its_base() -> None:
    class Narrower(engine.ServerBusy):
        pass

    assert engine_answer(Narrower("m", retry_after=2)).status == 429


def test_body_has_the_shape_of_the_reference() -> None:
    assert UNKNOWN_ROUTE.body() == (
        b'{"error":{"message":"unknown route","type":"not_found","code":null}}'
    )


def test_message_that_is_no_text_is_still_sent() -> None:
    body = ErrorAnswer(400, "x", "a\udc80b\n").body()
    assert json.loads(body)["error"]["message"] == "a?b\n"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (gunicorn_errors.InvalidRequestLine("x" * 9000), 400),
        (gunicorn_errors.InvalidHeader("x"), 400),
        (gunicorn_errors.UnsupportedTransferCoding("x"), 400),
        (gunicorn_errors.LimitRequestLine(9000, 8190), 414),
        (gunicorn_errors.LimitRequestHeaders("x"), 431),
        (gunicorn_errors.InvalidResponseHeader("x"), 500),
        (gunicorn_errors.ConfigurationProblem("x"), 500),
        (RequestIncomplete(), 400),
        (RuntimeError("x"), 500),
    ],
)
def test_parser_complaint_is_the_clients_and_a_defect_ours(error: Exception, status: int) -> None:
    answer = protocol_answer(error)
    assert answer.status == status
    assert answer.type == ("server_error" if status == 500 else "invalid_request_error")
    assert len(answer.message) < 300


def test_raw_response_is_complete() -> None:
    answer = ErrorAnswer(429, "server_busy", "blåbær", retry_after=5)
    head, _, body = raw_response(answer).partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"HTTP/1.1 429 Too Many Requests",
        b"Connection: close",
        b"Content-Type: application/json",
        b"Content-Length: %d" % len(body),
        b"Access-Control-Allow-Origin: *",
        b"Retry-After: 5",
    ]
    assert json.loads(body)["error"]["message"] == "blåbær"
