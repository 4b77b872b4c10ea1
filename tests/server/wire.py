"""A raw HTTP/1.1 client: what is sent and what comes back, byte for byte."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.server.process import Server

CHAT = "/v1/chat/completions"


@dataclass(frozen=True)
class Answer:
    """A response as it came over the wire, its chunks joined."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> list[str]:
        """Every value of a header."""
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    def error_type(self) -> str:
        """The type of an error in the reference's shape, which is checked."""
        error = self.json()["error"]
        assert set(self.json()) == {"error"}
        assert set(error) == {"message", "type", "code"}
        assert error["code"] is None
        assert isinstance(error["message"], str)
        return str(error["type"])


@contextmanager
def connect(server: Server, timeout: float = 10.0) -> Iterator[socket.socket]:
    """A connection to a server."""
    with socket.create_connection((server.host, server.port), timeout) as sock:
        yield sock


def request_bytes(method: str, path: str, body: bytes | None = None, *headers: str) -> bytes:
    """A request with the headers that every client sends."""
    lines = [f"{method} {path} HTTP/1.1", "Host: test", *headers]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b"")


def exchange(server: Server, data: bytes, timeout: float = 10.0) -> Answer:
    """Send bytes and read until the server closes."""
    with connect(server, timeout) as sock:
        sock.sendall(data)
        return parse_answer(read_all(sock))


def post(server: Server, path: str, body: Any, *headers: str, timeout: float = 10.0) -> Answer:
    """POST to a path; `body` is JSON, or bytes that are sent as they are."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return exchange(server, request_bytes("POST", path, data, *headers), timeout)


def post_chat(server: Server, body: Any, *headers: str, timeout: float = 10.0) -> Answer:
    """POST a chat completion."""
    return post(server, CHAT, body, *headers, timeout=timeout)


def get(server: Server, path: str, *headers: str) -> Answer:
    """GET a path."""
    return exchange(server, request_bytes("GET", path, None, *headers))


def say(text: str, **fields: Any) -> dict[str, Any]:
    """The body of a chat completion with one user message."""
    return {"messages": [{"role": "user", "content": text}], **fields}


def events_of(body: bytes) -> list[str]:
    """The `data:` lines of a stream, whose framing is checked."""
    text = body.decode()
    assert text.endswith("\n\n")
    events = text[:-2].split("\n\n")
    for event in events:
        assert event.startswith("data: ")
        assert "\n" not in event
    return [event.removeprefix("data: ") for event in events]


def stream_request(text: str, **fields: Any) -> bytes:
    """The request for a streamed completion with one user message."""
    return request_bytes("POST", CHAT, json.dumps(say(text, stream=True, **fields)).encode())


def read_all(sock: socket.socket) -> bytes:
    """Everything up to the end of the connection."""
    parts = []
    while part := sock.recv(65536):
        parts.append(part)
    return b"".join(parts)


def parse_answer(data: bytes) -> Answer:
    """Take a response apart."""
    head, _, body = data.partition(b"\r\n\r\n")
    status_line, *lines = head.decode("latin-1").split("\r\n")
    headers = tuple((name, value.strip()) for name, _, value in (x.partition(":") for x in lines))
    if ("transfer-encoding", "chunked") in ((k.lower(), v.lower()) for k, v in headers):
        body = _joined(body)
    return Answer(int(status_line.split(" ")[1]), headers, body)


def _joined(body: bytes) -> bytes:
    parts = []
    while True:
        size, _, rest = body.partition(b"\r\n")
        length = int(size, 16)
        if length == 0:
            assert rest == b"\r\n", rest
            return b"".join(parts)
        parts.append(rest[:length])
        assert rest[length : length + 2] == b"\r\n"
        body = rest[length + 2 :]
