"""When the bytes of a new connection are worth a thread.

A client may send its request as slowly as it likes. Until the head is here, and of the body all
of it or READ_AHEAD bytes, a connection costs its buffer and no thread, so that clients who
dawdle or say nothing cannot keep others waiting.
"""

from __future__ import annotations

import re
from typing import Final

READ_AHEAD: Final = 64 * 1024
"""Bytes of a body, or of a head without an end, after which a thread reads the rest."""

_HEAD_END: Final = b"\r\n\r\n"
_CONTENT_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,15})[ \t]*\r\n", re.I)
_CHUNKED: Final = re.compile(rb"\r\ntransfer-encoding:[^\r\n]*chunked", re.I)
_EXPECT: Final = re.compile(rb"\r\nexpect:", re.I)
_CHUNK_SIZE: Final = re.compile(rb"([0-9a-f]{1,15})[ \t]*(?:;[^\r\n]*)?", re.I)


class Intake:
    """The bytes of one connection before a thread serves it.

    It only decides when to hand over; a real parser reads the bytes afterwards, so handing over
    early is never wrong, merely costlier.

    Attributes:
        buffer: everything received so far.
        deadline: monotonic time in seconds by which the next stage must be reached: the end of
            the head first, then the end of the body.
    """

    def __init__(self, now: float, head_timeout: float, body_timeout: float) -> None:
        self.buffer = bytearray()
        self.deadline = now + head_timeout
        self._body_timeout = body_timeout
        self._body_start: int | None = None
        self._wanted = 0
        self._chunk_at: int | None = None

    def feed(self, data: bytes, now: float) -> bool:
        """Take received bytes; True once the request should be given to a thread."""
        searched = max(0, len(self.buffer) - len(_HEAD_END) + 1)
        self.buffer += data
        if self._body_start is None and not self._find_body(searched, now):
            # Without an end in sight: a head that never ends, or one that breaks its lines with
            # LF alone and so is refused by the parser.
            return len(self.buffer) >= READ_AHEAD or self._has_bare_line_feed(searched)
        assert self._body_start is not None
        received = len(self.buffer) - self._body_start
        if self._chunk_at is not None and received < READ_AHEAD:
            return self._chunks_end(self._chunk_at)
        return received >= self._wanted

    def expired(self, now: float) -> bool:
        """Whether the client has missed its deadline."""
        return now >= self.deadline

    def _find_body(self, searched: int, now: float) -> bool:
        end = self.buffer.find(_HEAD_END, searched)
        if end < 0:
            return False
        head = bytes(self.buffer[: end + 2])
        self._body_start = end + len(_HEAD_END)
        self.deadline = now + self._body_timeout
        if _EXPECT.search(head):
            # The client sends its body only after an answer, which takes a thread.
            return True
        length = _CONTENT_LENGTH.search(head)
        if _CHUNKED.search(head):
            self._chunk_at = self._body_start
        elif length is not None:
            self._wanted = min(int(length.group(1)), READ_AHEAD)
        return True

    def _chunks_end(self, at: int) -> bool:
        """Whether the chunks from `at` on reach the last one, or are none that a parser reads."""
        while at < len(self.buffer):
            line_end = self.buffer.find(b"\r\n", at)
            if line_end < 0:
                break
            size = _CHUNK_SIZE.fullmatch(self.buffer, at, line_end)
            if size is None or int(size.group(1), 16) == 0:
                return True
            data_end = line_end + 2 + int(size.group(1), 16)
            if not b"\r\n".startswith(self.buffer[data_end : data_end + 2]):
                return True
            at = data_end + 2
            if at <= len(self.buffer):
                self._chunk_at = at
        return False

    def _has_bare_line_feed(self, searched: int) -> bool:
        recent = self.buffer[searched:]
        return recent.count(b"\n") != recent.count(b"\r\n") + recent.startswith(b"\n")
