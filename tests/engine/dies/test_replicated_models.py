"""Two replicas of a real model on dies of this host, in a process of its own.

Reference: `GET /admin/models`, `GET /admin/dies`, unload, and the session routes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.engine.dies.virtual_dies import FLAG

_ROOT = Path(__file__).parents[3]
_LIMIT_S = 270
_PREFILL = re.compile(r"(compiled|loaded) \d+/\d+: prefill")


def _run(folder: Path) -> tuple[dict[str, Any], str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.engine.dies.virtual_replicas", str(folder)],
        cwd=_ROOT,
        env={**os.environ, "XLA_FLAGS": FLAG},
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found, done.stderr


@pytest.mark.timeout(2 * _LIMIT_S + 30)
def test_replicas_answer_alike_keep_their_sessions_and_leave_together(tmp_path: Path) -> None:
    """A second start finds the programs of the first, each for its own dies."""
    found, log = _run(tmp_path)
    assert _PREFILL.findall(log) == ["compiled"] * 2
    assert found["overlapping"] == "CONFLICT"
    assert found["listed"] == [[3], [5, 6]]
    taken = [False, False, False, True, False, True, True, False]
    assert found["on_dies"] == [[is_taken, int(is_taken)] for is_taken in taken]
    texts = [text for text, _ in found["answers"]]
    assert len(set(texts)) == 1 and texts[0]
    cached = [count for _, count in found["answers"]]
    assert cached[:2] == [0, 0] and cached[2] > 0 and cached[3] == cached[2]
    assert found["homes"] == [[True, False], [False, True]]
    assert found["left"] == [[0, 0]] * 8

    again, log = _run(tmp_path)
    assert again == found
    assert _PREFILL.findall(log) == ["loaded"] * 2
