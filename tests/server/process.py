"""A real gunicorn on a free loopback port, which never outlives the test that started it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[2]
SCRIPTED_APP = "tests.server.scripted_app"
_READY = re.compile(r"is ready on http://([^:\s]+):(\d+)")


@dataclass(frozen=True)
class Server:
    """A server that is ready."""

    host: str
    port: int
    pid: int
    log: Path

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://{self.host}:{self.port}"


@contextmanager
def start_server(
    app: str = SCRIPTED_APP,
    environment: Mapping[str, str] | None = None,
    ready_seconds: float = 60.0,
) -> Iterator[Server]:
    """Run `gunicorn APP` as the project's gunicorn.conf.py says, and wait until it is ready."""
    command = (sys.executable, "-m", "gunicorn", "-c", str(ROOT / "gunicorn.conf.py"), app)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "server.log"
        with log.open("wb") as output:
            process = start_process(command, environment, output)
            try:
                host, port = wait_ready(process, log, ready_seconds)
                yield Server(host, port, process.pid, log)
            finally:
                stop_process(process)


def run_to_exit(
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    folder: Path = ROOT,
    seconds: float = 30.0,
) -> tuple[int, str]:
    """Run a command that is expected to end by itself; its exit status and its output."""
    with tempfile.TemporaryFile() as output:
        process = start_process(command, environment, output, folder)
        try:
            status = process.wait(seconds)
        finally:
            stop_process(process)
        output.seek(0)
        return status, output.read().decode()


def start_process(
    command: Sequence[str],
    environment: Mapping[str, str] | None,
    output: IO[bytes],
    folder: Path = ROOT,
) -> subprocess.Popen[bytes]:
    """Start a command with settings of its own, in a process group of its own."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PANTHEON_", "PN_", "BS_", "QWEN35_", "GUNICORN_", "WEB_"))
    }
    return subprocess.Popen(
        command,
        cwd=folder,
        env={**inherited, "PANTHEON_PORT": "0", **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def stop_process(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it started."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)


def wait_ready(
    process: subprocess.Popen[bytes], log: Path, ready_seconds: float
) -> tuple[str, int]:
    """The address of a process once it says that it is ready."""
    deadline = time.monotonic() + ready_seconds
    while time.monotonic() < deadline:
        found = _READY.search(log.read_text("utf-8", "replace"))
        if found:
            return found.group(1), int(found.group(2))
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise AssertionError(f"the server did not become ready:\n{log.read_text('utf-8', 'replace')}")
