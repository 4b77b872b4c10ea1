"""Writes GGUF bytes piece by piece, so that tests can write wrong ones.

Layout: the GGUF specification (ggml, docs/gguf.md).
"""

import struct
from dataclasses import dataclass, field

UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
F32, F16, Q4_0, Q4_K = 0, 1, 2, 12


def string(text: str | bytes) -> bytes:
    """A length-prefixed string."""
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(raw)) + raw


def pair(key: str, kind: int, payload: bytes) -> bytes:
    """A metadata entry."""
    return string(key) + struct.pack("<I", kind) + payload


def uint32(key: str, value: int) -> bytes:
    """An entry of type uint32."""
    return pair(key, UINT32, struct.pack("<I", value))


def text(key: str, value: str | bytes) -> bytes:
    """An entry of type string."""
    return pair(key, STRING, string(value))


def array(key: str, kind: int, count: int, payload: bytes) -> bytes:
    """An entry of type array; `count` need not be what the payload holds."""
    return pair(key, ARRAY, struct.pack("<IQ", kind, count) + payload)


def strings(key: str, values: list[str]) -> bytes:
    """An entry that is an array of strings."""
    return array(key, STRING, len(values), b"".join(map(string, values)))


def tensor(name: str, extents: list[int], kind: int, offset: int) -> bytes:
    """An entry of the tensor table; extents as in the file, the contiguous one first."""
    return (
        string(name)
        + struct.pack("<I", len(extents))
        + b"".join(struct.pack("<Q", extent) for extent in extents)
        + struct.pack("<IQ", kind, offset)
    )


@dataclass(slots=True)
class File:
    """The parts of a file; the counts follow the lists unless they are given."""

    pairs: list[bytes] = field(default_factory=list)
    tensors: list[bytes] = field(default_factory=list)
    data: bytes = b""
    version: int = 3
    alignment: int = 32

    def pack(self) -> bytes:
        """The bytes of the file."""
        head = b"GGUF" + struct.pack("<IQQ", self.version, len(self.tensors), len(self.pairs))
        head += b"".join(self.pairs) + b"".join(self.tensors)
        return head + bytes(-len(head) % self.alignment) + self.data
