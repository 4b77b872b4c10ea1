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

pytestmark = pytest.mark.long

_ROOT = Path(__file__).parents[3]
_LIMIT_S = 570
_MODELS = {
    "llama-smollm": COUNTS,
    "qwen3moe": COUNTS,
    "qwen35": COUNTS,
    "qwen35moe-q-Q4_K_M": (8,),
}
"""A dense model, a mixture of experts, a hybrid with delta nets, and both of those packed in blocks
of 256 values, which a cut through columns would hit; and the numbers of dies."""


@cache
def _answers(name: str) -> list[dict[str, Any]]:
    return _said(name, *map(str, _MODELS[name]))


def _said(*arguments: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.engine.dies.virtual_dies", *arguments],
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
    counts = _MODELS[name]
    assert [row["dies"] for row in found] == [list(range(8 - count, 8)) for count in counts]
    assert [row["tokens"] for row in found] == [_golden(name)] * len(counts)


@pytest.mark.timeout(_LIMIT_S + 30)
def test_the_kernels_for_gpus_give_the_same_tokens_over_two_dies() -> None:
    """ARCHITECTURE, dies: a kernel runs on a die's own heads and knows nothing of others. Of
    attention, delta nets, convolutions and rows, interpreted."""
    (row,) = _said("qwen35", "--for-gpus", "2")
    assert (row["by"], row["tokens"]) == ("GPU_INTERPRETED", _golden("qwen35"))


@pytest.mark.timeout(_LIMIT_S + 30)
@pytest.mark.parametrize("name", [name for name, counts in _MODELS.items() if len(counts) > 1])
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
