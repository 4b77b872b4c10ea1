"""Reading a request's body, never more of it than the limit."""

from __future__ import annotations

from typing import Any, Final, Protocol

from gunicorn.http.errors import NoMoreData, ParseException

from pantheon.http.bounded_socket import RequestIncomplete
from pantheon.http.errors import RequestRefused
from pantheon.http.protocol_errors import protocol_answer

LIMIT_SETTING: Final = "PANTHEON_MAX_BODY_BYTES"
"""What sets the limit of most bodies."""

_STEP: Final = 64 * 1024
_PLAIN_CODINGS: Final = {
    "Transfer-Encoding": {"", "identity", "chunked"},
    "Content-Encoding": {"", "identity"},
}


class BodyWanted(RequestIncomplete):
    """A request cannot be answered before the rest of its body is here.

    Attributes:
        limit: bytes of the body beyond which the request is refused whatever comes.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def read_body(environ: dict[str, Any], limit: int, set_by: str = LIMIT_SETTING) -> bytes:
    """The whole body of a request, at most `limit` bytes.

    Codings and a length that the client announces are judged before anything is read; a chunked
    body is judged while it is read.

    Args:
        environ: of the request.
        limit: bytes.
        set_by: where the limit comes from, for the error's text.

    Raises:
        RequestRefused: 413 for more than `limit` bytes, 400 for a coded body, broken chunks or
            fewer bytes than announced.
        BodyWanted: nothing is wrong with what is here of it.
    """
    _refuse_codings(environ)
    announced = _content_length(environ)
    if announced is not None and announced > limit:
        raise _too_large(limit, set_by, f"{announced} bytes")
    stream: _Readable = environ["wsgi.input"]
    parts: list[bytes] = []
    received = 0
    try:
        # One byte more than the limit tells a body that is too large from one that just fits.
        while part := stream.read(min(_STEP, limit + 1 - received)):
            parts.append(part)
            received += len(part)
            if received > limit:
                raise _too_large(limit, set_by, "more")
    except RequestIncomplete:
        raise BodyWanted(limit) from None
    except ParseException as error:
        answer = protocol_answer(error)
        raise RequestRefused(answer.status, answer.message) from None
    except NoMoreData:
        raise RequestRefused(400, "the body ended before its last chunk") from None
    if announced is not None and received < announced:
        raise RequestRefused(400, f"expected a body of {announced} bytes, got {received}")
    return b"".join(parts)


def _refuse_codings(environ: dict[str, Any]) -> None:
    for name, plain in _PLAIN_CODINGS.items():
        value = environ.get(f"HTTP_{name.upper().replace('-', '_')}", "")
        if not {coding.strip(" \t").lower() for coding in value.split(",")} <= plain:
            allowed = " or ".join(sorted(plain - {""}))
            raise RequestRefused(400, f"{name}: expected {allowed}, got {value[:80]!r}")


def _content_length(environ: dict[str, Any]) -> int | None:
    text = environ.get("CONTENT_LENGTH") or ""
    # The server has already refused a length that is no number.
    return int(text) if text.isdecimal() else None


def _too_large(limit: int, set_by: str, got: str) -> RequestRefused:
    return RequestRefused(413, f"expected a body of at most {limit} bytes ({set_by}), got {got}")
