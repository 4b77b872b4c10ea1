"""When a connection gets a thread."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pantheon.http.intake import READ_AHEAD, Intake

HEAD = b"POST / HTTP/1.1\r\nHost: x\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"

COMPLETE = {
    "no body": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "no headers": b"GET / HTTP/1.1\r\n\r\n",
    "length": HEAD + b"Content-Length: 5\r\n\r\nhello",
    "length in other letters": HEAD + b"CONTENT-LENGTH:\t5 \r\n\r\nhello",
    "length zero": HEAD + b"Content-Length: 0\r\n\r\n",
    "chunks": CHUNKED + b"5\r\nhello\r\n10;a=b\r\n0\r\n\r\n0123456789a\r\n0\r\n\r\n",
    "no chunk": CHUNKED + b"0\r\n\r\n",
    "trailers": CHUNKED + b"1\r\nx\r\n0;a=b\r\nA: b\r\nC: d\r\n\r\n",
    "length with zeros": HEAD + b"Content-Length: 00000000000000000005\r\n\r\nhello",
}


@pytest.mark.parametrize("data", COMPLETE.values(), ids=COMPLETE.keys())
@given(cuts=st.lists(st.integers(0, 120), max_size=6))
def test_request_is_handed_over_with_its_last_byte(data: bytes, cuts: list[int]) -> None:
    """However the bytes arrive: complete with the last one and not before. A thread gets it
    then, and before that only when the head has become complete."""
    intake = Intake(0.0, 10.0, 60.0)
    edges = sorted({0, len(data) - 1, *(cut for cut in cuts if cut < len(data) - 1)})
    head_end = data.index(b"\r\n\r\n") + 4
    for start, end in itertools.pairwise(edges):
        assert intake.feed(data[start:end], 1.0) == (start < head_end <= end)
        assert not intake.complete
    assert intake.feed(data[-1:], 1.0)
    assert intake.complete
    assert intake.take() == data
    assert intake.buffer == b""


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\nHost: x\n\n",
        b"GET / HTTP/1.1\r\nHost: x\n",
        b"x" * READ_AHEAD,
        HEAD + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
        CHUNKED + b"xyz\r\n",
        CHUNKED + b"-5\r\n",
        CHUNKED + b"2\r\n{}__",
        CHUNKED + b"ffffffffffffffffffffffffff\r\n",
        CHUNKED + b"0" * (READ_AHEAD + 1),
        CHUNKED + b"0\r\n" + b"x" * READ_AHEAD,
    ],
)
def test_what_a_parser_refuses_is_complete(data: bytes) -> None:
    intake = Intake(0.0, 10.0, 60.0)
    assert intake.feed(data, 1.0)
    assert intake.complete


def chunks_of(size: int, count: int) -> bytes:
    return (b"%x\r\n" % size + b"x" * size + b"\r\n") * count


@pytest.mark.parametrize(
    "more", [b"fffffff\r\n" + b"x" * 200_000, chunks_of(1, 80_000)], ids=["one", "many"]
)
def test_chunks_over_the_limit_are_complete_once_it_is_known(more: bytes) -> None:
    intake = Intake(0.0, 10.0, 60.0)
    assert intake.feed(CHUNKED + more[:100], 1.0)
    assert not intake.complete
    intake.body_limit = 1000
    assert intake.feed(more[100:], 1.0)
    assert intake.complete


def test_chunks_up_to_the_limit_are_waited_for() -> None:
    intake = Intake(0.0, 10.0, 60.0)
    intake.feed(CHUNKED, 1.0)
    intake.body_limit = 100_000
    assert not intake.feed(chunks_of(1000, 100), 1.0)
    assert intake.feed(b"0\r\n\r\n", 1.0)


def test_deadline_is_for_the_head_and_then_for_the_body() -> None:
    intake = Intake(100.0, 10.0, 60.0)
    assert intake.deadline == 110.0
    intake.feed(HEAD, 105.0)
    assert intake.deadline == 110.0
    intake.feed(b"Content-Length: 5\r\n\r\n", 108.0)
    assert intake.deadline == 168.0
    intake.feed(b"hell", 150.0)
    assert intake.deadline == 168.0


@given(st.lists(st.binary(max_size=300), max_size=20))
def test_any_bytes_are_taken(parts: list[bytes]) -> None:
    intake = Intake(0.0, 10.0, 60.0)
    for part in parts:
        intake.feed(part, 1.0)
    assert bytes(intake.buffer) == b"".join(parts)
