"""Reading one JSON value as it comes, and Python's spelling of it (scenario 14)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pantheon.engine.tools.json_reader import JsonReader, json_value

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
ANY_TEXT = st.lists(
    st.sampled_from(
        ["{", "}", "[", "]", ",", ":", '"a"', "'b'", '"', "'", "\\", "\\u00", "1", "-", "True", " "]
    )
    | st.text(max_size=2),
    max_size=14,
).map("".join)


@given(VALUES, st.booleans(), st.sampled_from([None, 2]))
def test_strict_json_comes_out_byte_for_byte(value: Any, escaped: bool, indent: int | None) -> None:
    """Whatever its spaces and escapes are."""
    text = json.dumps(value, ensure_ascii=escaped, indent=indent)
    assert json_value(text) == text


@given(VALUES)
def test_pythons_literals_become_the_same_value(value: Any) -> None:
    """As `repr` writes them; escapes above U+FFFF are Python's alone and left out."""
    text = repr(value)
    if "\\U" not in text and "\\\\" not in text:
        assert json.loads(json_value(text) or "") == value


@given(ANY_TEXT, st.lists(st.integers(0, 40), max_size=4))
def test_any_text_is_json_or_refused_whatever_the_cut(text: str, cuts: list[int]) -> None:
    """What is complete is one value for Python's reader too."""
    result = json_value(text)
    if result is not None:
        json.loads(result, parse_constant=lambda word: pytest.fail(word))
    reader, pieces, at = JsonReader(), "", 0
    for end in [*sorted(min(cut, len(text)) for cut in cuts), len(text)]:
        if reader.done or reader.failed:
            break
        piece, place = reader.read(text[at:end])
        pieces += piece
        at += place
    pieces += reader.finish()
    is_value = reader.done and not reader.failed and not reader.invalid
    complete = is_value and not text[at:].strip(" \t\r\n")
    assert (pieces.strip(" \t\r\n") if complete else None) == result


@given(ANY_TEXT)
def test_what_python_reads_is_read(text: str) -> None:
    """No strict JSON is refused, but for the bounds."""
    try:
        value = json.loads(text, parse_constant=lambda word: pytest.fail(word))
    except (ValueError, pytest.fail.Exception):
        return
    assert json.loads(json_value(text) or "") == value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{'a': True, 'b': [None, False,],}", '{"a": true, "b": [null, false]}'),
        ("'it\\'s \"x\"'", '"it\'s \\"x\\""'),
        ('"a\nb\tc"', '"a\\nb\\tc"'),
        ('"\\d \\x41 \\u00e9"', '"\\\\d \\u0041 \\u00e9"'),
        ('{"a": 1, "a": {"b": [1, 2]}, "c": 3}', '{"a": 1, "c": 3}'),
        ('{"a": 1, "\\u0061": 2}', '{"a": 1}'),
        ('{"o": {"a": 1, "a": 2}}', '{"o": {"a": 1}}'),
        ("[" * 128 + "]" * 128, "[" * 128 + "]" * 128),
        *((text, None) for text in ("", " ", "{", "[1", '"a', "{a: 1}", "{1: 2}", "[1 2]", "[,]")),
        *((text, None) for text in ("NaN", "-Infinity", "1e999", "01", "+1", ".5", "1.", "1_0")),
        *((text, None) for text in ("9" * 309, "[" * 129 + "]" * 129, "1 2", "{} {}", '"\\u12"')),
        *((text, None) for text in ("(1, 2)", "{1, 2}", "'a' 'b'", "b'a'", "nul", "TRUE")),
    ],
)
def test_values(text: str, expected: str | None) -> None:
    """What has one meaning is rewritten, everything else refused."""
    assert json_value(text) == expected


def test_line_breaks_in_strings_fail_where_they_are_not_wanted() -> None:
    """A quotation mark in prose must not swallow the lines that follow."""
    reader = JsonReader(multiline=False)
    assert reader.read('["a\nb"]') == ('["a', 3) and reader.failed
