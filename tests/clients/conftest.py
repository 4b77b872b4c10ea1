"""Fixtures of the tests with other software's clients."""

from __future__ import annotations

import pytest

from tests.clients.program import PACKAGES


@pytest.fixture(scope="session", autouse=True)
def installed() -> None:
    """The npm packages are there."""
    assert (PACKAGES / ".bin" / "opencode").exists(), "run `make clients`, which installs them"
