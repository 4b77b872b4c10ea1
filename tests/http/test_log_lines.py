"""A log line cannot be forged by what a client sends."""

import logging

from hypothesis import given
from hypothesis import strategies as st

from pantheon.http.log_lines import OneLine, one_line


def _record(name: str, message: str, *args: object) -> logging.LogRecord:
    return logging.LogRecord(name, logging.INFO, __file__, 1, message, args, None)


def test_a_name_with_a_line_break_stays_in_its_line() -> None:
    record = _record("pantheon.engine.registry", "%s: not loaded", "evil\n[CRITICAL] \x1b[31mred")
    assert OneLine("pantheon").filter(record)
    assert record.getMessage() == "evil\\n[CRITICAL] \\x1b[31mred: not loaded"


def test_a_long_path_does_not_fill_the_log() -> None:
    assert one_line("x" * 10_000) == "x" * 2000 + "... (10000 characters)"


def test_other_loggers_are_left_alone() -> None:
    record = _record("gunicorn.error", "two\nlines %s", "a\nb")
    assert OneLine("pantheon").filter(record)
    assert record.getMessage() == "two\nlines a\nb"


@given(st.text(max_size=200))
def test_every_text_becomes_one_printable_line(text: str) -> None:
    shown = one_line(text)
    assert shown.isprintable() and len(shown.splitlines()) <= 1
    if text.isprintable():
        assert shown == text
