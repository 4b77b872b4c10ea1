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

from pantheon.http.cors import COMMON_HEADERS
from pantheon.http.errors import INTERNAL_ERROR, INVALID_REQUEST, ErrorAnswer

_MAX_DETAIL: Final = 200
"""Characters of a parser's complaint that are repeated to the client, who wrote most of it."""

_STATUS: Final[dict[type[ParseException], int]] = {
    LimitRequestLine: 414,
    LimitRequestHeaders: 431,
    ForbiddenProxyRequest: 403,
}

TOO_SLOW: Final = ErrorAnswer(408, INVALID_REQUEST, "the request did not arrive in time")


def protocol_answer(error: Exception) -> ErrorAnswer:
    """The response to a complaint of gunicorn's parser, or to a defect while serving."""
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
