"""One warning for each client whose contents are read as empty (reference, `messages`)."""

from __future__ import annotations

import logging

import pytest

from pantheon.engine.testing import Script
from pantheon.handlers.chat import ChatCompletions, ChatOptions
from pantheon.handlers.unread_content import MAX_CLIENTS, UnreadContentWarnings
from tests.handlers.calls import Client, engine_that, request
from tests.log_records import records_of

LOGGER = "pantheon.handlers.unread_content"
PARTS = [{"role": "user", "content": [{"type": "text", "text": "x"}]}]


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was said of contents."""
    return [record.getMessage() for record in records_of(caplog, LOGGER)]


def test_each_client_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    chat = ChatCompletions(engine_that(Script()), ChatOptions())
    with caplog.at_level(logging.WARNING):
        for name in ("10.0.0.1 a", "10.0.0.1 a", "10.0.0.1 b", "10.0.0.2 a", "10.0.0.1 b"):
            chat.create(request(Client(name=name), messages=PARTS))
    texts = warned(caplog)
    assert len(texts) == 3
    assert all("PANTHEON_CONTENT_PARTS" in text for text in texts)


def test_nothing_is_said_of_contents_that_are_read(caplog: pytest.LogCaptureFixture) -> None:
    chat = ChatCompletions(engine_that(Script()), ChatOptions(content_parts=True))
    with caplog.at_level(logging.WARNING):
        chat.create(request(messages=PARTS))
        chat.create(request())
    assert warned(caplog) == []


def test_table_and_log_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    warnings = UnreadContentWarnings()
    with caplog.at_level(logging.WARNING):
        for number in range(MAX_CLIENTS + 10):
            warnings.warn(f"client {number}")
    assert len(warned(caplog)) == MAX_CLIENTS


def test_name_of_a_client_cannot_forge_a_line(caplog: pytest.LogCaptureFixture) -> None:
    UnreadContentWarnings().warn("a\nforged line")
    (text,) = warned(caplog)
    assert "\n" not in text
