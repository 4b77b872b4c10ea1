"""The WSGI layer in front of the routes: what holds for every request, matched or not."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from pantheon.http.bounded_socket import RequestIncomplete
from pantheon.http.cors import COMMON_HEADERS, PREFLIGHT_BODY, preflight_headers
from pantheon.http.errors import INTERNAL_ERROR

Environ: TypeAlias = dict[str, Any]
Headers: TypeAlias = list[tuple[str, str]]
StartResponse: TypeAlias = Callable[..., Any]
WsgiApplication: TypeAlias = Callable[[Environ, StartResponse], Iterable[bytes]]

_log: Final = logging.getLogger(__name__)


class Envelope:
    """Wraps a WSGI application.

    OPTIONS on any path is the preflight answer, the common headers are on every response, and a
    defect outside the routes is a 500 in the error shape, with its traceback in the log.
    """

    def __init__(self, inner: WsgiApplication) -> None:
        self._inner = inner

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] == "OPTIONS":
            start_response("200 OK", _with_common(preflight_headers(environ)))
            return [PREFLIGHT_BODY]

        def start(status: str, headers: Headers, *exc_info: Any) -> Any:
            return start_response(status, _with_common(headers), *exc_info)

        try:
            return self._inner(environ, start)
        except RequestIncomplete:
            raise  # No defect: the worker comes back with the rest.
        except Exception:
            # Whatever a defect raises, the client gets the error shape and the log the cause.
            _log.exception("error while answering %s", environ["REQUEST_METHOD"])
            status = HTTPStatus(INTERNAL_ERROR.status)
            body = INTERNAL_ERROR.body()
            headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
            start(f"{status.value} {status.phrase}", headers, sys.exc_info())
            return [body]


def _with_common(headers: Headers) -> Headers:
    common = {name.lower() for name, _ in COMMON_HEADERS}
    return [header for header in headers if header[0].lower() not in common] + [*COMMON_HEADERS]
