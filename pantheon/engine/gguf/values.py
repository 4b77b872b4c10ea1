"""Metadata values: the value types of GGUF, and reading one value or skipping one array.

Scalars and strings are read at once; arrays are only located and bounded, and decoded when asked
for, so a vocabulary of 250,000 entries costs one pass over its lengths when a file is opened.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from pantheon.engine.gguf.cursor import Cursor
from pantheon.engine.gguf.errors import GGUFError

MAX_STRING_BYTES = 1 << 24
"""Longest metadata string; chat templates, the longest in use, stay under 100 kB."""


class ValueType(IntEnum):
    """Value types of GGUF metadata."""

    UINT8 = 0
    INT8 = 1
    UINT16 = 2
    INT16 = 3
    UINT32 = 4
    INT32 = 5
    FLOAT32 = 6
    BOOL = 7
    STRING = 8
    ARRAY = 9
    UINT64 = 10
    INT64 = 11
    FLOAT64 = 12


_CODES: dict[ValueType, str] = {
    ValueType.UINT8: "B",
    ValueType.INT8: "b",
    ValueType.UINT16: "H",
    ValueType.INT16: "h",
    ValueType.UINT32: "I",
    ValueType.INT32: "i",
    ValueType.FLOAT32: "f",
    ValueType.BOOL: "B",
    ValueType.UINT64: "Q",
    ValueType.INT64: "q",
    ValueType.FLOAT64: "d",
}
_LAYOUTS = {kind: struct.Struct("<" + code) for kind, code in _CODES.items()}

INTEGERS = frozenset(
    {
        ValueType.UINT8,
        ValueType.INT8,
        ValueType.UINT16,
        ValueType.INT16,
        ValueType.UINT32,
        ValueType.INT32,
        ValueType.UINT64,
        ValueType.INT64,
    }
)
FLOATS = frozenset({ValueType.FLOAT32, ValueType.FLOAT64})


@dataclass(frozen=True, slots=True)
class Scalar:
    """A metadata value that is no array."""

    kind: ValueType
    value: int | float | bool | str

    def describe(self) -> str:
        """Type and value for messages, cut to a readable length."""
        text = repr(self.value)
        return f"{self.kind.name.lower()} {text if len(text) <= 80 else text[:77] + '...'}"

    def encode(self) -> bytes:
        """Type and value as bytes, equal for equal values only."""
        return f"{int(self.kind)}:{self.value!r}".encode()


@dataclass(frozen=True, slots=True)
class Array:
    """A located, undecoded metadata array: its items lie in `data`."""

    kind: ValueType
    count: int
    data: memoryview

    def describe(self) -> str:
        """Type and length for messages."""
        return f"array of {self.count} {self.kind.name.lower()}"

    def encode(self) -> bytes:
        """Type and items as bytes, equal for equal arrays only."""
        return f"{int(self.kind)}x{self.count}:".encode() + self.data

    def numbers(self) -> NDArray[np.generic]:
        """The items of a numeric array, copied; shape [count], dtype as in the file."""
        return np.frombuffer(self.data, dtype="<" + _CODES[self.kind]).copy()

    def strings(self, what: str) -> list[str]:
        """The items of a string array.

        Raises:
            GGUFError: an item is not UTF-8.
        """
        data = bytes(self.data)
        unpack = struct.Struct("<Q").unpack_from
        position = 0
        items: list[str] = []
        try:
            for _ in range(self.count):
                start = position + 8
                position = start + unpack(data, position)[0]
                items.append(data[start:position].decode("utf-8"))
        except UnicodeDecodeError as error:
            raise GGUFError(f"item {len(items)} of {what} must be UTF-8: {error}") from error
        return items


def read_value(cursor: Cursor, what: str, item_budget: int) -> Scalar | Array:
    """Read one value, its type first; an array is located, not decoded.

    Args:
        cursor: Position of the value's type.
        what: Name of the value for messages.
        item_budget: Most array items that are accepted.

    Raises:
        GGUFError: unknown type, nested array, boolean other than 0 and 1, string that is too long
            or not UTF-8, more items than allowed, or the file ends first.
    """
    kind = _value_type(cursor, what)
    if kind is ValueType.ARRAY:
        return _locate_array(cursor, what, item_budget)
    if kind is ValueType.STRING:
        return Scalar(kind, cursor.string(MAX_STRING_BYTES, what))
    value = cursor.unpack(_LAYOUTS[kind], what)
    if kind is ValueType.BOOL:
        if value not in (0, 1):
            raise GGUFError(f"{what} is a bool and must be 0 or 1, found {value}")
        return Scalar(kind, bool(value))
    return Scalar(kind, value)


def _value_type(cursor: Cursor, what: str) -> ValueType:
    found = cursor.uint32(f"the type of {what}")
    try:
        return ValueType(found)
    except ValueError:
        raise GGUFError(
            f"{what} has the unknown value type {found}; expected 0 to {max(ValueType)}"
        ) from None


def _locate_array(cursor: Cursor, what: str, item_budget: int) -> Array:
    kind = _value_type(cursor, f"the items of {what}")
    if kind is ValueType.ARRAY:
        raise GGUFError(f"{what} is an array of arrays; nested arrays are not supported")
    count = cursor.uint64(f"the length of {what}")
    item_bytes = 8 if kind is ValueType.STRING else _LAYOUTS[kind].size
    if count > cursor.remaining // item_bytes:
        raise GGUFError(
            f"{what} says {count} items of {kind.name.lower()}, but the {cursor.remaining} bytes "
            f"left in the file hold {cursor.remaining // item_bytes} at most"
        )
    if count > item_budget:
        raise GGUFError(
            f"{what} says {count} items; at most {item_budget} more array items are accepted"
        )
    start = cursor.position
    if kind is ValueType.STRING:
        cursor.skip_strings(count, MAX_STRING_BYTES, what)
    else:
        cursor.position += count * item_bytes
    return Array(kind, count, cursor.buffer[start : cursor.position])
