"""What one logger said in a test."""

from __future__ import annotations

import logging

import pytest


def records_of(caplog: pytest.LogCaptureFixture, logger: str) -> list[logging.LogRecord]:
    """The records of a logger and those below it; threads of earlier tests may still log others."""
    return [record for record in caplog.records if f"{record.name}.".startswith(f"{logger}.")]
