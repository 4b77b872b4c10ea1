"""The WSGI application: generated routes, error handlers and the envelope around them."""

from __future__ import annotations

import logging
from typing import Any, Final

import falcon

from pantheon.engine import EngineError
from pantheon.generated.operations import Operations
from pantheon.generated.routes import add_routes
from pantheon.http.body import BodyWanted
from pantheon.http.envelope import Envelope
from pantheon.http.errors import (
    INTERNAL_ERROR,
    UNKNOWN_ROUTE,
    ErrorAnswer,
    RequestRefused,
    engine_answer,
)
from pantheon.http.runtime import HttpRuntime

_log: Final = logging.getLogger(__name__)


def wsgi_application(operations: Operations, max_body_bytes: int) -> Envelope:
    """Every route of the server over `operations`."""
    app = falcon.App(middleware=[_ExactPaths()])
    app.add_error_handler(Exception, _on_defect)
    app.add_error_handler(falcon.HTTPError, _on_unknown_route)
    app.add_error_handler(EngineError, _on_engine_error)
    app.add_error_handler(BodyWanted, _on_body_wanted)
    app.add_error_handler(RequestRefused, _on_refusal)
    add_routes(app, operations, HttpRuntime(max_body_bytes))
    return Envelope(app)


class _ExactPaths:
    """Falcon's router takes `//` for `/`; every path that is not listed is unknown."""

    def process_request(self, request: falcon.Request, _response: falcon.Response) -> None:
        """Refuse what the router would take for something else."""
        if request.path.startswith("//"):
            raise falcon.HTTPRouteNotFound


def _render(response: falcon.Response, answer: ErrorAnswer) -> None:
    response.status = answer.status
    response.content_type = falcon.MEDIA_JSON
    response.data = answer.body()
    response.stream = None
    for name, value in answer.headers().items():
        response.set_header(name, value)


def _on_defect(
    _request: falcon.Request, response: falcon.Response, error: Exception, _params: Any
) -> None:
    _log.error("error while answering a request", exc_info=error)
    _render(response, INTERNAL_ERROR)


def _on_body_wanted(
    _request: falcon.Request, _response: falcon.Response, error: BodyWanted, _params: Any
) -> None:
    raise error


def _on_unknown_route(
    _request: falcon.Request, response: falcon.Response, _error: falcon.HTTPError, _params: Any
) -> None:
    # Falcon itself raises these for nothing but a path or a method that is not routed.
    _render(response, UNKNOWN_ROUTE)


def _on_engine_error(
    _request: falcon.Request, response: falcon.Response, error: EngineError, _params: Any
) -> None:
    answer = engine_answer(error)
    if answer.status >= 500:
        _log.warning("refused a request: %r", answer.message)
    _render(response, answer)


def _on_refusal(
    _request: falcon.Request, response: falcon.Response, error: RequestRefused, _params: Any
) -> None:
    _render(response, error.answer)
