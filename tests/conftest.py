"""Fixtures for the whole suite."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.process import Server, start_server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server over the scripted engine with the default settings, shared by all tests."""
    with start_server() as started:
        yield started
