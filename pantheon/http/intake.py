"""When the bytes of a new connection are worth a thread.

A client may send its request as slowly as it likes. A thread gets it twice at most: when its head
is here, to answer what needs no body, and when its body is here. In between, and before, a
connection costs its buffer and no thread, so that clients who dawdle or say nothing cannot keep
others waiting.
"""

from __future__ import annotations

import re
from typing import Final

READ_AHEAD: Final = 64 * 1024
"""Most bytes of a head without an end, a chunk's size line or a trailer section; also how far
gunicorn's reader of a body may look beyond what it is asked for."""

_HEAD_END: Final = b"\r\n\r\n"
_CONTENT_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*0*(\d{1,15})[ \t]*\r\n", re.I)
_CHUNKED: Final = re.compile(rb"\r\ntransfer-encoding:[^\r\n]*chunked", re.I)
_CHUNK_SIZE: Final = re.compile(rb"([0-9a-f]{1,15})[ \t]*(?:;[^\r\n]*)?", re.I)


class Intake:
    """The bytes of one connection before a thread serves it.

    It only finds where the request ends; a real parser reads the bytes afterwards and judges
    them. What no parser would read counts as ended, so that it is refused at once.

    Attributes:
        buffer: everything received so far.
        complete: whether no further byte would make a difference.
        body_limit: bytes of a body beyond which the rest makes no difference; None while nobody
            has asked for the body.
        deadline: monotonic time in seconds by which the next stage must be reached: the end of
            the head first, then the end of the body.
    """

    def __init__(self, now: float, head_timeout: float, body_timeout: float) -> None:
        self.buffer = bytearray()
        self.complete = False
        self.body_limit: int | None = None
        self.deadline = now + head_timeout
        self._body_timeout = body_timeout
        self._body_start: int | None = None
        self._announced: int | None = 0
        self._chunk_at = 0
        self._chunked_bytes = 0

    def feed(self, data: bytes, now: float) -> bool:
        """Take received bytes; True when the head has become complete, and when all has."""
        searched = max(0, len(self.buffer) - len(_HEAD_END) + 1)
        self.buffer += data
        head_is_new = self._body_start is None
        if head_is_new and not self._find_body(searched, now):
            # Without an end in sight: a head that never ends, or one that breaks its lines with
            # LF alone and so is refused by the parser.
            self.complete = len(self.buffer) >= READ_AHEAD or self._has_bare_line_feed(searched)
            return self.complete
        assert self._body_start is not None
        if self._announced is None:
            self.complete = self._chunks_end()
        else:
            self.complete = len(self.buffer) - self._body_start >= self._announced
        return self.complete or head_is_new

    def take(self) -> bytearray:
        """The buffer, which is empty afterwards."""
        buffer, self.buffer = self.buffer, bytearray()
        return buffer

    def _find_body(self, searched: int, now: float) -> bool:
        end = self.buffer.find(_HEAD_END, searched)
        if end < 0:
            return False
        head = bytes(self.buffer[: end + 2])
        self._body_start = self._chunk_at = end + len(_HEAD_END)
        self.deadline = now + self._body_timeout
        length = _CONTENT_LENGTH.search(head)
        if _CHUNKED.search(head):
            self._announced = None
        elif length is not None:
            self._announced = int(length.group(1))
        return True

    def _chunks_end(self) -> bool:
        """Whether the last chunk is here, or more than the limit, or what no parser reads."""
        while not self._exceeds_limit(self._chunked_bytes):
            line_end = self.buffer.find(b"\r\n", self._chunk_at)
            if line_end < 0:
                return len(self.buffer) - self._chunk_at > READ_AHEAD
            line = _CHUNK_SIZE.fullmatch(self.buffer, self._chunk_at, line_end)
            if line is None:
                return True
            size, start = int(line.group(1), 16), line_end + 2
            if size == 0:
                trailers = len(self.buffer) - line_end
                return self.buffer.find(_HEAD_END, line_end) >= 0 or trailers > READ_AHEAD
            end = start + size
            if not b"\r\n".startswith(self.buffer[end : end + 2]):
                return True
            if len(self.buffer) < end + 2:
                here = min(size, len(self.buffer) - start)
                return self._exceeds_limit(self._chunked_bytes + here)
            self._chunked_bytes += size
            self._chunk_at = end + 2
        return True

    def _exceeds_limit(self, body_bytes: int) -> bool:
        return self.body_limit is not None and body_bytes > self.body_limit + READ_AHEAD

    def _has_bare_line_feed(self, searched: int) -> bool:
        recent = self.buffer[searched:]
        return recent.count(b"\n") != recent.count(b"\r\n") + recent.startswith(b"\n")
