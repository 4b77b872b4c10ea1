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
    "chunks": CHUNKED + b"5\r\nhello\r\n10;a=b\r\n0\r\n\r\n0123456789a\r\n0\r\n",
    "no chunk": CHUNKED + b"0\r\n",
    "expectation": HEAD + b"Content-Length: 500\r\nExpect: 100-continue\r\n\r\n",
}


@pytest.mark.parametrize("data", COMPLETE.values(), ids=COMPLETE.keys())
@given(cuts=st.lists(st.integers(0, 120), max_size=6))
def test_request_is_handed_over_with_its_last_byte(data: bytes, cuts: list[int]) -> None:
    """However the bytes arrive: not before the last one, and with it at the latest."""
    intake = Intake(0.0, 10.0, 60.0)
    edges = sorted({0, len(data) - 1, *(cut for cut in cuts if cut < len(data) - 1)})
    for start, end in itertools.pairwise(edges):
        assert not intake.feed(data[start:end], 1.0)
    assert intake.feed(data[-1:], 1.0)
    assert intake.buffer == data


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\nHost: x\n\n",
        b"GET / HTTP/1.1\r\nHost: x\n",
        b"x" * READ_AHEAD,
        HEAD + b"Content-Length: 99999999\r\n\r\n" + b"x" * READ_AHEAD,
        CHUNKED + b"FFFFF\r\n" + b"x" * READ_AHEAD,
        CHUNKED + b"xyz\r\n",
        CHUNKED + b"-5\r\n",
        CHUNKED + b"2\r\n{}__",
        CHUNKED + b"ffffffffffffffffffffffffff\r\n",
    ],
)
def test_what_a_parser_refuses_or_must_go_on_reading_is_handed_over(data: bytes) -> None:
    assert Intake(0.0, 10.0, 60.0).feed(data, 1.0)


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
