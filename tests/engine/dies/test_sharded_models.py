"""Models over 1, 2, 4 and 8 dies of this host, each in a process of its own.

Reference: `dies` of `POST /admin/models/load`, `GET /admin/dies`, session export and restore. The
tokens are those of the reference data (tests/data/README.md: `greedy`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.engine.dies.virtual_dies import COUNTS, FED_BACK, FLAG
from tests.golden import golden_arrays

_ROOT = Path(__file__).parents[3]
_LIMIT_S = 570
_MODELS = ["llama-smollm", "qwen3moe", "qwen35", "qwen35moe-q-Q4_K_M"]
"""A dense model, a mixture of experts, a hybrid with delta nets, and both of those packed in blocks
of 256 values, which a cut through columns would hit."""


@cache
def _answers(name: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.engine.dies.virtual_dies", name],
        cwd=_ROOT,
        env={**os.environ, "XLA_FLAGS": FLAG},
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def _golden(name: str) -> list[int]:
    folder = "quant" if "-Q" in name else "models"
    greedy: list[int] = golden_arrays(f"{folder}/{name}.npz")["greedy"].tolist()
    return greedy


@pytest.mark.timeout(_LIMIT_S + 30)
@pytest.mark.parametrize("name", _MODELS)
def test_any_number_of_dies_gives_the_same_tokens(name: str) -> None:
    found = _answers(name)
    assert [row["dies"] for row in found] == [list(range(8 - count, 8)) for count in COUNTS]
    assert [row["tokens"] for row in found] == [_golden(name)] * len(COUNTS)


@pytest.mark.timeout(_LIMIT_S + 30)
@pytest.mark.parametrize("name", _MODELS)
def test_a_session_moves_between_numbers_of_dies(name: str) -> None:
    """Reference, `POST /session/restore`: same architecture and weights; where heads stand on dies
    is no part of a blob. The turn goes on from the cache as if it had never left."""
    for row in _answers(name)[1:]:
        assert row["continued"] == _golden(name)[FED_BACK:]
        assert row["cached"] >= len(golden_arrays("models/llama-smollm.npz")["ids"])


@pytest.mark.timeout(_LIMIT_S + 30)
def test_dies_say_what_each_of_them_holds() -> None:
    """Reference, `vram_used`, and `vram_bytes` of an instance: with more dies each holds less."""
    found = _answers("llama-smollm")
    for row, count in zip(found, COUNTS, strict=True):
        used = row["vram_used"]
        assert used[: 8 - count] == [0] * (8 - count)
        assert sum(used) == row["vram_bytes"]
    largest = [max(row["vram_used"]) for row in found]
    assert largest == sorted(largest, reverse=True) and largest[3] < largest[0] / 4
