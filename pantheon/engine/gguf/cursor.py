"""Bounded little-endian reads over the bytes of a GGUF file.

Field layout: the GGUF specification (ggml, docs/gguf.md), versions 2 and 3.
"""

import struct

from pantheon.engine.gguf.errors import GGUFError

_UINT32 = struct.Struct("<I")
_UINT64 = struct.Struct("<Q")


class Cursor:
    """A read position in a buffer. Every read is checked against the buffer's end by subtraction
    before it happens, so no count in the file is trusted with an allocation."""

    __slots__ = ("buffer", "end", "position")

    def __init__(self, buffer: memoryview) -> None:
        self.buffer = buffer
        self.end = len(buffer)
        self.position = 0

    @property
    def remaining(self) -> int:
        """Bytes between the position and the end."""
        return self.end - self.position

    def require(self, size: int, what: str) -> None:
        """Raise GGUFError unless `size` more bytes are there."""
        if size > self.end - self.position:
            raise GGUFError(
                f"file is truncated in {what}: {size} bytes expected at offset {self.position}, "
                f"{self.end - self.position} are left"
            )

    def unpack(self, layout: struct.Struct, what: str) -> int | float:
        """One value of a little-endian one-field struct."""
        self.require(layout.size, what)
        value: int | float = layout.unpack_from(self.buffer, self.position)[0]
        self.position += layout.size
        return value

    def uint32(self, what: str) -> int:
        """An unsigned 32-bit integer."""
        return int(self.unpack(_UINT32, what))

    def uint64(self, what: str) -> int:
        """An unsigned 64-bit integer."""
        return int(self.unpack(_UINT64, what))

    def string(self, limit: int, what: str) -> str:
        """A length-prefixed UTF-8 string of at most `limit` bytes."""
        length = self.uint64(f"the length of {what}")
        if length > limit:
            raise GGUFError(f"{what} may be at most {limit} bytes long, its length says {length}")
        self.require(length, what)
        raw = bytes(self.buffer[self.position : self.position + length])
        self.position += length
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise GGUFError(f"{what} must be UTF-8: {error}") from error

    def skip_strings(self, count: int, limit: int, what: str) -> None:
        """Move past `count` length-prefixed strings of at most `limit` bytes each, undecoded."""
        unpack = _UINT64.unpack_from
        buffer, end, position = self.buffer, self.end, self.position
        for index in range(count):
            if end - position < 8:
                raise GGUFError(
                    f"file is truncated in {what}: it ends before item {index} of {count}"
                )
            length = unpack(buffer, position)[0]
            position += 8
            if length > end - position or length > limit:
                raise GGUFError(
                    f"file is truncated or damaged in {what}: item {index} of {count} says "
                    f"{length} bytes, {end - position} are left, {limit} are allowed"
                )
            position += length
        self.position = position
