"""Children end with the block that started them, whatever ends it."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import psutil
import pytest

from bench.errors import BenchError
from bench.process import running, wait_until

_PARENT = (
    "import signal, subprocess, sys, time\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
    "print(child.pid, flush=True)\n"
    "time.sleep(60)\n"
)


def _silent(seconds: float) -> None:
    assert seconds >= 0.0


def test_an_interrupt_ends_the_child_and_what_it_started(tmp_path: Path) -> None:
    log = tmp_path / "log"
    pids = []
    with (
        pytest.raises(KeyboardInterrupt),
        running((sys.executable, "-c", _PARENT), tmp_path, log, os.environ) as process,
    ):
        wait_until(lambda: log.read_text().endswith("\n"), process, log, 30.0, _silent)
        pids = [process.pid, int(log.read_text())]
        raise KeyboardInterrupt
    # A killed orphan stays listed until its new parent has waited for it.
    deadline = time.monotonic() + 10.0
    while any(_alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(pids) == 2
    assert not any(_alive(pid) for pid in pids)


def _alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_child_that_ends_too_early_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = (sys.executable, "-c", "raise SystemExit('no such model')")
    with (
        running(command, tmp_path, log, os.environ) as process,
        pytest.raises(BenchError, match="status 1:\nno such model"),
    ):
        wait_until(lambda: False, process, log, 30.0, _silent)


def test_a_wait_ends_when_its_time_is_up(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = (sys.executable, "-c", "import time; time.sleep(60)")
    with (
        running(command, tmp_path, log, os.environ) as process,
        pytest.raises(BenchError, match="more than 0 s"),
    ):
        wait_until(lambda: False, process, log, 0.3, _silent)
