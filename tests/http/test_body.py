"""Reading bodies from a WSGI stream."""

from __future__ import annotations

import io
from typing import Any

import pytest
from gunicorn.http.errors import InvalidChunkSize, NoMoreData

from pantheon.http.body import BodyWanted, read_body
from pantheon.http.bounded_socket import RequestIncomplete
from pantheon.http.errors import RequestRefused


class Stream:
    """A body that breaks in a given way after its data."""

    def __init__(self, data: bytes, error: Exception | None = None) -> None:
        self._data = io.BytesIO(data)
        self._error = error
        self.asked = 0

    def read(self, size: int, /) -> bytes:
        self.asked += size
        part = self._data.read(size)
        if not part and self._error is not None:
            raise self._error
        return part


def environ(stream: object, length: str | None = None) -> dict[str, Any]:
    return {"wsgi.input": stream} | ({} if length is None else {"CONTENT_LENGTH": length})


@pytest.mark.parametrize("length", [None, "", "10"])
def test_body_up_to_the_limit_is_read(length: str | None) -> None:
    assert read_body(environ(io.BytesIO(b"x" * 10), length), 10) == b"x" * 10


def test_announced_length_is_judged_before_reading() -> None:
    stream = Stream(b"x" * 11)
    with pytest.raises(RequestRefused) as caught:
        read_body(environ(stream, "11"), 10)
    assert caught.value.answer.status == 413
    assert stream.asked == 0


def test_body_of_unknown_length_is_judged_while_reading() -> None:
    stream = Stream(b"x" * 1_000_000)
    with pytest.raises(RequestRefused) as caught:
        read_body(environ(stream), 100)
    assert caught.value.answer.status == 413
    assert stream.asked == 101


@pytest.mark.parametrize(
    ("error", "status"),
    [(InvalidChunkSize(b"xyz"), 400), (NoMoreData(), 400)],
)
def test_broken_body_is_refused(error: Exception, status: int) -> None:
    with pytest.raises(RequestRefused) as caught:
        read_body(environ(Stream(b"abc", error)), 100)
    assert caught.value.answer.status == status
    assert caught.value.answer.type == "invalid_request_error"


def test_what_is_not_here_yet_is_asked_for() -> None:
    with pytest.raises(BodyWanted) as caught:
        read_body(environ(Stream(b"abc", RequestIncomplete())), 100)
    assert caught.value.limit == 100


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("HTTP_TRANSFER_ENCODING", "gzip, chunked",
         "Transfer-Encoding: expected chunked or identity, got 'gzip, chunked'"),
        ("HTTP_CONTENT_ENCODING", "gzip", "Content-Encoding: expected identity, got 'gzip'"),
    ],
)  # fmt: skip
def test_coded_body_is_refused_before_reading(name: str, value: str, message: str) -> None:
    stream = Stream(b"x")
    with pytest.raises(RequestRefused) as caught:
        read_body(environ(stream) | {name: value}, 100)
    assert (caught.value.answer.status, caught.value.answer.message) == (400, message)
    assert stream.asked == 0


def test_body_shorter_than_announced_is_refused() -> None:
    with pytest.raises(RequestRefused, match="expected a body of 9 bytes, got 3"):
        read_body(environ(io.BytesIO(b"abc"), "9"), 100)
