"""Typed access to the key/value section of a GGUF file."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from pantheon.engine.gguf.errors import GGUFError
from pantheon.engine.gguf.values import FLOATS, INTEGERS, Array, Scalar, ValueType

_T = TypeVar("_T")
_Float: TypeAlias = float
"""The builtin, which the getter of that name hides inside the class."""


class Metadata:
    """The metadata of one file.

    Each getter raises GGUFError naming the key, the expected type and what was found, when the
    key is absent or holds another type. The `optional_` getters return None for an absent key and
    still refuse a wrong type. Integers of any width are accepted as integers, both float widths as
    floats; NaN and infinity never leave a getter.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Scalar | Array]) -> None:
        self._values = values

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def uint(self, key: str, *, minimum: int = 0, maximum: int = (1 << 32) - 1) -> int:
        """An integer in [minimum, maximum]."""
        value = self._scalar(key, "an integer", INTEGERS).value
        assert isinstance(value, int)
        if not minimum <= value <= maximum:
            raise GGUFError(
                f"metadata key {key!r} must be between {minimum} and {maximum}, found {value}"
            )
        return value

    def float(self, key: str) -> _Float:
        """A finite float."""
        value = self._scalar(key, "a float", FLOATS).value
        assert isinstance(value, _Float)
        if not math.isfinite(value):
            raise GGUFError(f"metadata key {key!r} must be a finite number, found {value}")
        return value

    def boolean(self, key: str) -> bool:
        """A boolean."""
        return bool(self._scalar(key, "a bool", frozenset({ValueType.BOOL})).value)

    def string(self, key: str) -> str:
        """A string."""
        return str(self._scalar(key, "a string", frozenset({ValueType.STRING})).value)

    def strings(self, key: str) -> list[str]:
        """An array of strings."""
        array = self._array(key, "an array of strings", frozenset({ValueType.STRING}))
        return array.strings(f"metadata key {key!r}")

    def count_of_strings(self, key: str) -> int:
        """How many items an array of strings has. They are not decoded."""
        return self._array(key, "an array of strings", frozenset({ValueType.STRING})).count

    def integers(self, key: str) -> NDArray[np.int64]:
        """An array of integers, shape [n]."""
        numbers = self._array(key, "an array of integers", INTEGERS).numbers()
        if numbers.dtype == np.uint64 and numbers.size and int(numbers.max()) >> 63:
            raise GGUFError(f"metadata key {key!r} holds integers above 2^63-1")
        return numbers.astype(np.int64)

    def booleans(self, key: str) -> list[bool]:
        """An array of booleans."""
        array = self._array(key, "an array of booleans", frozenset({ValueType.BOOL}))
        return [bool(number) for number in array.numbers()]

    def floats(self, key: str) -> NDArray[np.float64]:
        """An array of finite floats, shape [n]."""
        numbers = self._array(key, "an array of floats", FLOATS).numbers().astype(np.float64)
        if not np.isfinite(numbers).all():
            raise GGUFError(f"metadata key {key!r} must hold finite numbers")
        return numbers

    def optional_uint(
        self, key: str, *, minimum: int = 0, maximum: int = (1 << 32) - 1
    ) -> int | None:
        """As `uint`, or None when the key is absent."""
        return self.uint(key, minimum=minimum, maximum=maximum) if key in self else None

    def optional_float(self, key: str) -> _Float | None:
        """As `float`, or None when the key is absent."""
        return self._optional(key, self.float)

    def optional_boolean(self, key: str) -> bool | None:
        """As `boolean`, or None when the key is absent."""
        return self._optional(key, self.boolean)

    def optional_string(self, key: str) -> str | None:
        """As `string`, or None when the key is absent."""
        return self._optional(key, self.string)

    def optional_strings(self, key: str) -> list[str] | None:
        """As `strings`, or None when the key is absent."""
        return self._optional(key, self.strings)

    def optional_integers(self, key: str) -> NDArray[np.int64] | None:
        """As `integers`, or None when the key is absent."""
        return self._optional(key, self.integers)

    def optional_booleans(self, key: str) -> list[bool] | None:
        """As `booleans`, or None when the key is absent."""
        return self._optional(key, self.booleans)

    def optional_floats(self, key: str) -> NDArray[np.float64] | None:
        """As `floats`, or None when the key is absent."""
        return self._optional(key, self.floats)

    def encoded(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        """Every pair whose key begins with `prefix`, by key: type and value as bytes."""
        for key in sorted(key for key in self._values if key.startswith(prefix)):
            yield key, self._values[key].encode()

    def _optional(self, key: str, getter: Callable[[str], _T]) -> _T | None:
        return getter(key) if key in self else None

    def _scalar(self, key: str, expected: str, kinds: frozenset[ValueType]) -> Scalar:
        found = self._found(key, expected)
        if not isinstance(found, Scalar) or found.kind not in kinds:
            raise GGUFError(f"metadata key {key!r} must be {expected}, found {found.describe()}")
        return found

    def _array(self, key: str, expected: str, kinds: frozenset[ValueType]) -> Array:
        found = self._found(key, expected)
        if not isinstance(found, Array) or found.kind not in kinds:
            raise GGUFError(f"metadata key {key!r} must be {expected}, found {found.describe()}")
        return found

    def _found(self, key: str, expected: str) -> Scalar | Array:
        try:
            return self._values[key]
        except KeyError:
            raise GGUFError(f"metadata key {key!r} is missing; expected {expected}") from None
