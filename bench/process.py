"""Child processes that never outlive the bench, and waits that always end."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from bench.errors import BenchError

_END_SECONDS: Final = 15.0
_LOG_TAIL: Final = 3000


@contextmanager
def running(
    command: Sequence[str], folder: Path, log: Path, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """A child in a session of its own, ended with all that it started when the block ends.

    Ctrl-C therefore reaches the bench alone, which ends its children in order.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        if process.poll() is None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END_SECONDS)
    finally:
        # Also after an orderly end: nothing of its session may stay behind.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_until(
    done: Callable[[], bool],
    process: subprocess.Popen[bytes],
    log: Path,
    seconds: float,
    tell: Callable[[float], None],
) -> float:
    """Wait for `done`, asked often at first, telling the seconds so far.

    Returns:
        The seconds waited.

    Raises:
        BenchError: the process ended with another status than 0 before, or time is up; with the
            end of its log.
    """
    start = time.monotonic()
    while not done():
        waited = time.monotonic() - start
        status = process.poll()
        if status is not None and not done():
            raise BenchError(f"{_name(process)} ended with status {status}:\n{tail(log)}")
        if waited > seconds:
            raise BenchError(f"{_name(process)} took more than {seconds:.0f} s:\n{tail(log)}")
        tell(waited)
        # A start is timed by this to a hundredth; a build need not be watched so closely.
        time.sleep(min(0.25, max(0.01, waited / 100)))
    return time.monotonic() - start


def tail(log: Path) -> str:
    """The end of a log."""
    return log.read_text("utf-8", "replace")[-_LOG_TAIL:]


def _name(process: subprocess.Popen[bytes]) -> str:
    arguments = process.args
    assert isinstance(arguments, Sequence)
    return Path(str(arguments[0])).name
