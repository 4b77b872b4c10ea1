"""What the generated routes need of HTTP."""

from __future__ import annotations

from typing import Any, Final

import falcon
import msgspec

from pantheon.generated import routes
from pantheon.generated.operations import (
    ClientConnection,
    EncodedBody,
    EventStream,
    SseComment,
    SseSentinel,
)
from pantheon.http.body import LIMIT_SETTING, read_body
from pantheon.http.bounded_socket import peer_is_gone
from pantheon.http.errors import RequestRefused
from pantheon.http.json_body import MalformedJson, checked_text, parse_text
from pantheon.http.schema import RequestSchemas
from pantheon.http.sse import CONTENT_TYPE, SseBody

_MAX_CLIENT_NAME: Final = 200


class SocketClient:
    """The client at the other end of a request's socket."""

    def __init__(self, environ: dict[str, Any]) -> None:
        self._socket = environ.get("gunicorn.socket")
        address, agent = environ.get("REMOTE_ADDR", ""), environ.get("HTTP_USER_AGENT", "")
        self._name = f"{address} {agent}".strip()[:_MAX_CLIENT_NAME]

    @property
    def name(self) -> str:
        """Address and User-Agent, cut to 200 characters. Forwarded headers are ignored."""
        return self._name

    def is_gone(self) -> bool:
        """Whether the client has closed the connection; never, where there is no socket."""
        return self._socket is not None and peer_is_gone(self._socket.fileno())


class HttpRuntime:
    """Implements `pantheon.generated.routes.Runtime`."""

    def __init__(self, max_body_bytes: int) -> None:
        self._max_body_bytes = max_body_bytes
        self._schemas = RequestSchemas(routes.REQUEST_SCHEMAS)
        self._encoder = msgspec.json.Encoder()

    def read_body(
        self, request: falcon.Request, operation_id: str, own_limit: int | None = None
    ) -> object:
        """The request's body as a JSON object that is valid under its schema.

        Its Content-Type does not matter (reference, request headers).

        Raises:
            RequestRefused: what the body breaks, as 400 or 413.
            BodyWanted: its rest has not arrived.
        """
        limit, set_by = self._max_body_bytes, LIMIT_SETTING
        if own_limit is not None and own_limit > limit:
            limit, set_by = own_limit, "what the largest session needs"
        body = read_body(request.env, limit, set_by)
        if not body or body.isspace():
            raise RequestRefused(400, "expected a JSON object, got an empty body")
        try:
            text = checked_text(body)
            # It may be hundreds of megabytes, and its text is all that is needed from here on.
            del body
            value = parse_text(text)
        except MalformedJson as error:
            raise RequestRefused(400, str(error)) from None
        self._schemas.check(operation_id, value)
        return value

    def invalid_parameter(self, name: str, rule: str, value: str | None) -> Exception:
        """A 400 for a query parameter."""
        got = "none" if value is None else repr(value[:80])
        return RequestRefused(400, f"{name}: expected {rule}, got {got}")

    def client(self, request: falcon.Request) -> ClientConnection:
        """The connection of a request."""
        return SocketClient(request.env)

    def encode(self, body: msgspec.Struct) -> bytes:
        """A model as JSON in UTF-8."""
        return self._encoder.encode(body)

    def send(self, response: falcon.Response, body: EncodedBody) -> None:
        """Send a JSON body piece by piece; its length is known."""
        response.content_type = falcon.MEDIA_JSON
        response.set_stream(body, body.length)

    def stream(
        self,
        response: falcon.Response,
        events: EventStream[msgspec.Struct | SseComment | SseSentinel],
    ) -> None:
        """Send events one by one."""
        response.content_type = CONTENT_TYPE
        response.set_header("Cache-Control", "no-cache")
        response.stream = SseBody(events, self.encode)
