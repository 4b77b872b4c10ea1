"""The machine, and who else keeps it busy."""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import psutil

from bench.processor import read_cpuinfo
from pantheon import build_info

_PACKAGES: Final = ("jax", "jaxlib", "numpy")


def describe(root: Path) -> dict[str, Any]:
    """Commit, machine and versions as JSON; nothing in it names a place or a person."""
    model = re.search(r"^model name\s*:\s*(.*)$", read_cpuinfo(), re.MULTILINE)
    return {
        "commit": build_info.commit_of(root),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {
            "cpu": model.group(1).strip() if model else platform.machine(),
            "cores": len(os.sched_getaffinity(0)),
            "memory_bytes": psutil.virtual_memory().total,
        },
        "versions": {
            "python": platform.python_version(),
            "pantheon": build_info.version(),
            **{package: metadata.version(package) for package in _PACKAGES},
        },
    }


@dataclass(frozen=True, slots=True)
class CpuUse:
    """Core-seconds used since some beginning.

    Attributes:
        at: seconds of the clock.
        all: by everything on the machine.
        here: by the bench.
        servers: by each server with its children, in order.
    """

    at: float
    all: float
    here: float
    servers: tuple[float, ...]

    def others_since(self, before: CpuUse) -> float:
        """Cores that neither the bench nor its servers used, on average since `before`."""
        used = (self.all - self.here - sum(self.servers)) - (
            before.all - before.here - sum(before.servers)
        )
        return max(0.0, used / (self.at - before.at))


def cpu_use(pids: Sequence[int]) -> CpuUse:
    """What was used so far by the servers with these pids, by the bench and in all."""
    times = psutil.cpu_times()
    return CpuUse(
        at=time.monotonic(),
        all=sum(times) - times.idle - getattr(times, "iowait", 0.0),
        here=_seconds(psutil.Process()),
        servers=tuple(_with_children(psutil.Process(pid)) for pid in pids),
    )


def _with_children(process: psutil.Process) -> float:
    return sum(_seconds(one) for one in (process, *process.children(recursive=True)))


def _seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
