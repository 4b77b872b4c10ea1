"""Answers to what is not even an HTTP request, written without a response object."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from gunicorn.http.errors import (
    ConfigurationProblem,
    ForbiddenProxyRequest,
    InvalidResponseHeader,
    InvalidResponseHeaderName,
    LimitRequestHeaders,
    LimitRequestLine,
    ParseException,
)

from pantheon.engine import ServerShuttingDown
from pantheon.http.bounded_socket import RequestIncomplete
from pantheon.http.cors import COMMON_HEADERS
from pantheon.http.errors import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    SERVER_BUSY,
    ErrorAnswer,
    engine_answer,
)

_MAX_DETAIL: Final = 200
"""Characters of a parser's complaint that are repeated to the client, who wrote most of it."""

_STATUS: Final[dict[type[ParseException], int]] = {
    LimitRequestLine: 414,
    LimitRequestHeaders: 431,
    ForbiddenProxyRequest: 403,
}

TOO_SLOW: Final = ErrorAnswer(408, INVALID_REQUEST, "the request did not arrive in time")

TOO_MANY_BODIES: Final = ErrorAnswer(
    429, SERVER_BUSY, "too many large bodies are arriving at once; send it again", retry_after=1
)

SHUTTING_DOWN: Final = engine_answer(ServerShuttingDown("the server is shutting down"))

TOO_MANY_CONNECTIONS: Final = ErrorAnswer(
    429, SERVER_BUSY, "too many connections wait to be served; send it again", retry_after=1
)

_UNREADABLE_END: Final = ErrorAnswer(
    400, INVALID_REQUEST, "malformed HTTP request: it ends elsewhere than its framing says"
)


def protocol_answer(error: Exception) -> ErrorAnswer:
    """The response to a complaint of gunicorn's parser, or to a defect while serving."""
    if isinstance(error, RequestIncomplete):
        return _UNREADABLE_END
    ours = (ConfigurationProblem, InvalidResponseHeader, InvalidResponseHeaderName)
    if not isinstance(error, ParseException) or isinstance(error, ours):
        return INTERNAL_ERROR
    detail = str(error)
    if len(detail) > _MAX_DETAIL:
        detail = f"{detail[:_MAX_DETAIL]}..."
    status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 400)
    return ErrorAnswer(status, INVALID_REQUEST, f"malformed HTTP request: {detail}")


def raw_response(answer: ErrorAnswer) -> bytes:
    """A whole HTTP/1.1 response, head and body, after which the connection closes."""
    body = answer.body()
    status = HTTPStatus(answer.status)
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        "Connection: close",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *(f"{name}: {value}" for name, value in COMMON_HEADERS),
        *(f"{name}: {value}" for name, value in answer.headers().items()),
    ]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body
