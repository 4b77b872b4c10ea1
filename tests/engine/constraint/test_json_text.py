"""Expressions for JSON text, held against a reader of JSON."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pantheon.engine.constraint.json_text import JsonText

CLOSE = "</parameter>"
TEXTS = st.text(max_size=6) | st.lists(
    st.sampled_from(["<", "</", "</para", CLOSE, CLOSE[:-1], ">", "a", '"', "\\", "\n", "é"])
).map("".join)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


def matches(expression: str, text: str) -> bool:
    """Python spells code points otherwise than the compiler's expressions."""
    python = re.sub(r"\\x\{([0-9a-f]+)\}", lambda m: rf"\U{int(m[1], 16):08x}", expression)
    return re.fullmatch(python, text) is not None


@settings(max_examples=300, deadline=None)
@given(text=TEXTS)
def test_strings_hold_any_text_but_what_is_forbidden(text: str) -> None:
    free, limited = JsonText(), JsonText(CLOSE)
    written = json.dumps(text, ensure_ascii=False)
    if "\x7f" not in text:
        assert matches(free.string, written)
        assert matches(limited.string, written) == (CLOSE not in text)
    hidden = written.replace(CLOSE, r"<\/parameter>")
    assert "\x7f" in text or matches(limited.string, hidden)
    assert "\x7f" in text or matches(free.string, json.dumps(text))
    is_plain = "\x7f" not in text and "\\u" not in written.replace(r"\\", "")
    assert matches(free.plain_string, written) == is_plain


@pytest.mark.parametrize(
    "written", [r'"\ud800"', r'"\udc00x"', '"\x01"', r'"\x"', '"', '"a"b"', r'"\u12"', "'a'"]
)
def test_what_is_no_string(written: str) -> None:
    """Halves of pairs are no text; the rest is no JSON."""
    assert not matches(JsonText().string, written)


@settings(max_examples=200, deadline=None)
@given(value=VALUES, indent=st.sampled_from([None, 1, 4]))
def test_a_value_in_any_layout(value: Any, indent: int | None) -> None:
    written = json.dumps(value, ensure_ascii=False, indent=indent)
    assert matches(JsonText().value(value), written)
    compact = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert matches(JsonText().value(value), compact)
    limited = JsonText(CLOSE).value(value)
    assert matches(limited, written.replace(CLOSE, r"<\/parameter>"))
    if CLOSE in written:
        assert not matches(limited, written)
