"""Programs of clients, which never outlive the test that runs them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

CLIENTS = Path(__file__).parent
PACKAGES = CLIENTS / "node_modules"


@dataclass(frozen=True, slots=True)
class Finished:
    """A program that has ended by itself.

    Attributes:
        status: its exit status.
        output: what it wrote to its standard output.
        errors: and to its standard error.
    """

    status: int
    output: str
    errors: str


def run_program(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, seconds: float
) -> Finished:
    """Run a command to its end, with no environment but the search path and what is given.

    Raises:
        subprocess.TimeoutExpired: it takes longer than `seconds`.
    """
    with subprocess.Popen(
        command,
        cwd=folder,
        env={"PATH": os.environ["PATH"], **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            output, errors = process.communicate(timeout=seconds)
        finally:
            # What the program itself started is in its process group.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return Finished(process.returncode, output.decode(), errors.decode())


def node() -> str:
    """The path of Node.js."""
    path = shutil.which("node")
    assert path is not None, "Node.js 20 or newer must be installed"
    return path
