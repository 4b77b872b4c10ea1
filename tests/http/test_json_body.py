"""Strict JSON out of hostile bytes (RFC 8259; the issue list of bad input)."""

from __future__ import annotations

import json
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pantheon.http.json_body import MAX_DEPTH, MAX_VALUES, MalformedJson, parse_json

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**300), 10**300)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",))),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=30,
)


@given(VALUES, st.booleans())
def test_valid_json_is_read_as_python_reads_it(value: object, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    try:
        expected = json.loads(text.decode())
    except UnicodeDecodeError:
        return
    assert parse_json(text) == _without_lone_surrogates(expected)


def _without_lone_surrogates(value: object) -> object:
    """A slow second opinion: through UTF-16, whose decoder replaces what is no pair."""
    match value:
        case str():
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        case list():
            return [_without_lone_surrogates(item) for item in value]
        case dict():
            return {
                str(_without_lone_surrogates(key)): _without_lone_surrogates(item)
                for key, item in value.items()
            }
    return value


@given(st.binary(max_size=200))
def test_any_bytes_give_a_value_or_the_one_error(data: bytes) -> None:
    try:
        value = parse_json(data)
    except MalformedJson as error:
        assert 0 < len(str(error)) < 300
    else:
        assert json.loads(data.decode()) == value


@given(st.text(alphabet='[]{}",:\\u0d8 1ae-.', max_size=60))
def test_near_json_gives_a_value_or_the_one_error(text: str) -> None:
    try:
        parse_json(text.encode())
    except MalformedJson:
        with pytest.raises(ValueError, match=r".|\n"):
            _strict(text)
    else:
        json.loads(text)


def _strict(text: str) -> None:
    value = json.loads(text)
    json.dumps(value, allow_nan=False)
    raise AssertionError(f"refused although it is JSON: {text!r}")


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b'{"a":"\xff"}', "invalid byte at position 6"),
        ("{}".encode("utf-16"), "invalid byte at position 0"),
        (b"NaN", "finite"),
        (b"[Infinity]", "finite"),
        (b"-Infinity", "finite"),
        (b"1e999", "finite"),
        (b"-1e999", "finite"),
        (b"1" + b"0" * 308, "308 digits"),
        (b"9" * 5000, "308 digits"),
        (b"{", "malformed JSON"),
        (b'"a\nb"', "malformed JSON"),
        (b"", "malformed JSON"),
    ],
)
def test_error_says_the_rule(data: bytes, rule: str) -> None:
    with pytest.raises(MalformedJson, match=rule):
        parse_json(data)


def test_largest_numbers_are_read() -> None:
    assert parse_json(b"9" * 308) == 10**308 - 1
    assert math.isfinite(parse_json(b"1.7976931348623157e308"))


@pytest.mark.parametrize("opener", ["[", '{"a":', '[{"a":'], ids=["arrays", "objects", "both"])
def test_depth_is_bounded_exactly(opener: str) -> None:
    levels = opener.count("[") + opener.count("{")
    closer = opener.replace('"a":', "")[::-1].translate(str.maketrans("[{", "]}"))

    def nested(depth: int) -> bytes:
        times = depth // levels
        return (opener * times + "1" + closer * times).encode()

    parse_json(nested(MAX_DEPTH))
    with pytest.raises(MalformedJson, match="levels of nesting"):
        parse_json(nested(MAX_DEPTH + levels))


def test_brackets_in_strings_are_no_depth() -> None:
    text = "[" * 1000 + '\\"' + "{" * 1000 + "\\\\"
    assert parse_json(f'{{"a":"{text}"}}'.encode())["a"].startswith("[[[")


def test_count_of_values_is_bounded() -> None:
    parse_json(b"[" + b"1," * 1000 + b"1]")
    for piece in (b"1,", b"[],", b'"",'):
        with pytest.raises(MalformedJson, match="keys and values"):
            parse_json(b"[" + piece * (MAX_VALUES + 1) + b"1]")


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 8_000_000,
        b'"' + b'\\"' * 4_000_000,
        b'"' + b"\\\\" * 4_000_000 + b'"',
        b"[" + b"9" * 8_000_000 + b"]",
        b'{"a":' * 1_600_000,
    ],
    ids=["open arrays", "unterminated", "backslashes", "digits", "open objects"],
)
def test_large_hostile_bodies_take_linear_time(data: bytes) -> None:
    """8 MB each; what is quadratic in any of them takes minutes."""
    started = time.monotonic()
    try:
        parse_json(data)
    except MalformedJson as error:
        assert len(str(error)) < 300
    assert time.monotonic() - started < 10


def test_surrogates_become_replacement_characters_in_keys_too() -> None:
    data = rb'{"a\ud800":["\udc00x","\ud83d\ude00","\ud83d\ud83d\ude00"],"n":"\u0000"}'
    assert parse_json(data) == {
        "a\ufffd": ["\ufffdx", "\U0001f600", "\ufffd\U0001f600"],
        "n": "\0",
    }


def test_repeated_key_keeps_its_last_value_even_if_that_is_null() -> None:
    assert parse_json(b'{"a":1,"a":null}') == {"a": None}
