"""Strict JSON (RFC 8259) out of hostile bytes.

Python's `json` is lenient where this must not be: it guesses UTF-16, accepts NaN and Infinity,
overflows floats to infinity, and follows nesting as deep as the interpreter's stack allows,
which differs between Python versions. Size, depth and count are bounded here before it runs.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final, NoReturn

MAX_DEPTH: Final = 128
"""Deepest nesting of arrays and objects."""

MAX_VALUES: Final = 500_000
"""Most keys and values in one body: what bounds the memory that its objects take."""

MAX_NUMBER_DIGITS: Final = 308
"""Most digits of an integer: those that a double can hold without becoming infinite."""

_OPENERS: Final = (ord("["), ord("{"))
_BRACKETS: Final = b"[]{}"
_NO_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in _BRACKETS)
_STRING: Final = re.compile(rb'"[^"]*"')
_SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class MalformedJson(ValueError):
    """The bytes are not JSON as accepted here. The message says what was expected and where."""


def parse_json(body: bytes) -> Any:
    """Parse a JSON text: `checked_text`, then `parse_text`."""
    return parse_text(checked_text(body))


def checked_text(body: bytes) -> str:
    """The text of a body that is safe to parse. Apart from parsing, so that a large body can be
    let go in between.

    Raises:
        MalformedJson: invalid UTF-8, a byte order mark, or more depth or values than the limits
            above.
    """
    if body.startswith(b"\xef\xbb\xbf"):
        raise MalformedJson("expected JSON in UTF-8 without a byte order mark, got one")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedJson(
            f"expected JSON in UTF-8, got an invalid byte at position {error.start}"
        ) from None
    _check_size(body)
    return text


def parse_text(text: str) -> Any:
    """Parse a text that `checked_text` has let pass.

    A repeated key keeps its last value. Lone surrogate escapes become U+FFFD in values and keys.

    Raises:
        MalformedJson: a syntax error, or a number that is not finite as a double.
    """
    try:
        value = json.loads(
            text, parse_float=_float, parse_int=_integer, parse_constant=_refuse_constant
        )
    except json.JSONDecodeError as error:
        raise MalformedJson(f"malformed JSON: {error}") from None
    return _without_surrogates(value) if _SURROGATE_ESCAPE.search(text) else value


def _check_size(body: bytes) -> None:
    """Refuse too deep or too many values, without recursion and in linear time.

    What is malformed besides is left to the parser; a wrong count for such a body does no harm.
    """
    # With escaped backslashes and then escaped quotes gone, every quote left bounds a string.
    has_escapes = b"\\" in body
    bare = body.replace(rb"\\", b"").replace(rb"\"", b"") if has_escapes else body
    if bare.count(b'"') > 2 * MAX_VALUES:
        raise MalformedJson(f"expected at most {MAX_VALUES} keys and values, got more strings")
    structure = _STRING.sub(b"", bare)
    values = sum(structure.count(mark) for mark in (b",", b":", b"[", b"{"))
    if values > MAX_VALUES:
        raise MalformedJson(f"expected at most {MAX_VALUES} keys and values, got {values}")
    brackets = structure.translate(None, _NO_BRACKETS)
    depth = max(accumulate(1 if byte in _OPENERS else -1 for byte in brackets), default=0)
    if depth > MAX_DEPTH:
        raise MalformedJson(f"expected at most {MAX_DEPTH} levels of nesting, got {depth}")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise MalformedJson(f"expected a finite number, got {_shortened(text)}")
    return value


def _integer(text: str) -> int:
    if len(text.lstrip("-")) > MAX_NUMBER_DIGITS:
        raise MalformedJson(
            f"expected a number of at most {MAX_NUMBER_DIGITS} digits, got {_shortened(text)}"
        )
    return int(text)


def _refuse_constant(text: str) -> NoReturn:
    raise MalformedJson(f"expected a finite number, got {text}, which is not JSON")


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}... ({len(text)} characters)"


def _without_surrogates(value: Any) -> Any:
    """The same value with U+FFFD for every lone surrogate. Recursion is bounded by MAX_DEPTH."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {key: item for key, item in _clean_items(value)}
    return value


def _clean_items(value: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, item in value.items():
        yield _without_surrogates(key), _without_surrogates(item)
