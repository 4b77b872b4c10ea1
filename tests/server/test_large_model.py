"""A model of the shape of Qwen3.5-35B-A3B with few experts, through the real server.

All 40 layers and all widths are those of the model; 16 experts instead of 256 and random blocks
make its file 2.3 GB. What is measured here is memory; numbers are held to the reference data by
the tiny models of the same architecture.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import psutil
import pytest

from tests.engine.model.large_model import (
    ATTENTION_LAYERS,
    KV_VALUES,
    RECURRENT_LAYERS,
    ROTARY_PAIRS,
    STATE_VALUES,
    VOCABULARY,
    write_large_model,
)
from tests.server.held_weights import held_bytes
from tests.server.models import serve_tiny
from tests.server.process import Server
from tests.server.wire import get, post, post_chat, say

pytestmark = [pytest.mark.long, pytest.mark.server, pytest.mark.timeout(1800)]

_NAME = "large"
_WINDOW, _PAGE = 256, 64
_CHECKPOINTS = 8
_PATIENCE = 900.0


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve_tiny(",ctx_cap=256,max_sessions=1") as started:
        yield started


def _worker(server: Server) -> psutil.Process:
    (worker,) = psutil.Process(server.pid).children()
    return worker


def _status_bytes(process: psutil.Process, key: str) -> int:
    """A line of the kernel's account of a process: VmHWM is the most that was ever resident."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith(f"{key}:"))
    return int(line.split()[1]) * 1024


def _unload(server: Server) -> None:
    answer = post(server, "/admin/models/unload", {"name": _NAME}, timeout=60)
    assert (answer.status, answer.json()) == (200, {"unloaded": _NAME})


def _ask(server: Server) -> Any:
    choice = {"max_tokens": 2, "temperature": 0, "logprobs": True, "top_logprobs": 3}
    body = say("a b c", model=_NAME, enable_thinking=False, **choice)
    answer = post_chat(server, body, timeout=_PATIENCE)
    assert answer.status == 200, answer.body
    return answer.json()


def test_a_35b_shape_loads_answers_and_leaves_inside_20_gb(server: Server, tmp_path: Path) -> None:
    """Its weights stay as the file packs them, at 4.1 bits each on the average."""
    path = tmp_path / "large.gguf"
    tensor_bytes = write_large_model(path)
    held_by_weights = sum(held_bytes(tensor) for tensor in gguf.GGUFReader(path).tensors)
    assert held_by_weights < 1.03 * tensor_bytes
    worker = _worker(server)
    before = _status_bytes(worker, "RssAnon")
    options = {"path": str(path), "name": _NAME, "ctx_cap": _WINDOW, "max_sessions": 1}
    try:
        loaded = post(server, "/admin/models/load", options, timeout=_PATIENCE)
    finally:
        path.unlink()
    assert loaded.status == 200, loaded.body
    row = loaded.json()
    states = (2 + _CHECKPOINTS) * RECURRENT_LAYERS * STATE_VALUES
    cache = _WINDOW * ATTENTION_LAYERS * KV_VALUES
    # The newest token, counts and biases, of one row and of the padding.
    rows = 2 * (1 + 2 * VOCABULARY)
    beside = 2 * cache + 4 * (states + rows + ROTARY_PAIRS)
    assert row["vram_bytes"] == held_by_weights + beside
    assert row["vram_bytes"] < 1.35 * tensor_bytes

    answer = _ask(server)
    assert answer["model"] == _NAME
    (choice,) = answer["choices"]
    entries = choice["logprobs"]["content"]
    assert 1 <= len(entries) <= answer["usage"]["completion_tokens"] <= 2
    for entry in entries:
        top = [one["logprob"] for one in entry["top_logprobs"]]
        assert len(set(top)) == 3 and top == sorted(top, reverse=True)
        assert all(math.isfinite(value) and -20 < value <= 0 for value in top)
        assert entry["logprob"] == top[0], "greedy"
    (listed,) = (one for one in get(server, "/admin/models").json()["data"] if one["id"] == _NAME)
    assert listed["vram_bytes"] == row["vram_bytes"]
    assert listed["attention"]["total"] == ATTENTION_LAYERS

    held = _status_bytes(worker, "RssAnon")
    assert _status_bytes(worker, "VmHWM") < 20e9
    _unload(server)
    after = _status_bytes(worker, "RssAnon")
    assert held - after > 0.95 * row["vram_bytes"]
    assert after < before + 0.05 * row["vram_bytes"], "programs go too"
    assert _worker(server) == worker
    assert post_chat(server, say("a", max_tokens=1)).status == 200
