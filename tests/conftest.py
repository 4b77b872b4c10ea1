"""Fixtures for the whole suite."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.process import Server, start_server


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that are marked `long` first: at the end all processes but one would wait for them."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server over the scripted engine with the default settings, shared by all tests."""
    with start_server() as started:
        yield started
