"""A model over two processes of this machine, and one of them that goes away.

The tokens are those of the reference data (tests/data/README.md: `greedy`), as of one process.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import pytest

from tests.engine.dies.virtual_dies import FED_BACK, RESERVE
from tests.engine.hosts.two_hosts import FLAG, SIZES
from tests.golden import golden_arrays

_ROOT = Path(__file__).parents[3]
_LIMIT_S = 280
_MODEL = "llama-smollm"


def two_ports() -> int:
    """A port that is free, as is the next one."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as first:
            port: int = first.getsockname()[1]
            try:
                with socket.create_server(("127.0.0.1", port + 1)):
                    return port
            except (OSError, OverflowError):
                continue


def _process(number: int, port: int) -> subprocess.Popen[str]:
    program = "tests.engine.hosts.two_hosts"
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", program, str(number), str(port), _MODEL],
        cwd=_ROOT,
        env={**os.environ, "XLA_FLAGS": FLAG},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def _line(stream: IO[str] | None) -> dict[str, Any]:
    """The next line of JSON: libraries print too."""
    assert stream is not None
    for line in stream:
        if line.startswith("{"):
            found: dict[str, Any] = json.loads(line)
            return found
    raise AssertionError("the process said nothing more")


@pytest.mark.timeout(_LIMIT_S)
def test_two_processes_answer_as_one_and_the_end_of_one_is_an_error_and_no_hang() -> None:
    golden = golden_arrays(f"models/{_MODEL}.npz")
    port = two_ports()
    leader, follower = _process(0, port), _process(1, port)
    try:
        found = _line(leader.stdout)
        assert found["locals"] == [True, True, False, False]
        used = found["vram_used"]
        assert used == [used[0]] * 4 and used[0] > 0, "every die has as much, of whichever host"
        assert found["vram_bytes"] == sum(used)
        assert found["left_bytes"] == SIZES[3] - RESERVE - used[3], "the smallest die's"
        assert found["tokens"] == golden["greedy"].tolist()
        assert found["continued"] == golden["greedy"].tolist()[FED_BACK:]
        assert found["cached"] >= len(golden["ids"]), "pages and tokens travelled in a blob"
        assert _line(leader.stdout) == {"begun": True}
        follower.kill()
        ended = _line(leader.stdout)
        assert (ended["last"], ended["unloaded"], ended["on_dies"]) == ("Failed", True, 0)
        assert "host 1 is gone" in ended["message"]
        assert "host 1 is gone" in ended["refused"]
        assert leader.wait(_LIMIT_S) == 0
    finally:
        for process in (leader, follower):
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
