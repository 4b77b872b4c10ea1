"""Random requests and random aborts leave nothing behind, over a real tiny model.

A fifth of the run that `python -m tests.server.stress` makes: 10,000 take minutes. What is checked
is said there, in run.py.
"""

from __future__ import annotations

import pytest

from tests.server.models import serve_tiny
from tests.server.stress.run import ENVIRONMENT, OPTIONS, stress

pytestmark = [pytest.mark.long, pytest.mark.server, pytest.mark.timeout(900)]

_REQUESTS = 2000
_MOMENTS = 6


def test_nothing_is_left_of_requests_that_end_or_are_broken_off() -> None:
    """Scenarios of sections I to L: rows, pages, sessions, threads, descriptors, canaries."""
    with serve_tiny(OPTIONS, **ENVIRONMENT) as server:
        report = stress(server, _REQUESTS, lambda checkpoint: None)
    assert [one.requests for one in report.checkpoints] == [0, 500, 1000, 1500, 2000]
    left = {kind: count for kind, count in report.counts.items() if kind.startswith("left: ")}
    assert len(left) == _MOMENTS and min(left.values()) > _REQUESTS / 100, left
    for kind in ("JSON", "stream", "canary", "export", "restore", "turn with cached tokens"):
        assert report.counts[kind] > 0, kind
    assert report.counts["restore: bad_session_blob"] > 0
