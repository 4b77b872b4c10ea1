"""Memory that a process and its children keep in RAM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psutil


@dataclass(frozen=True, slots=True)
class Resident:
    """Bytes of a process with its children.

    Attributes:
        pss: each page divided by those who share it, files mapped into memory included.
        rss: each process's pages, shared ones counted by each.
    """

    pss: int
    rss: int

    @property
    def mib(self) -> float:
        """The proportional share in MiB."""
        return self.pss / 2**20

    def record(self) -> dict[str, Any]:
        """The numbers as JSON, in MiB."""
        return {"pss_mib": round(self.mib, 1), "rss_mib": round(self.rss / 2**20, 1)}


def resident(pid: int) -> Resident:
    """What the process `pid` and its children hold now."""
    process = psutil.Process(pid)
    infos = [one.memory_full_info() for one in (process, *process.children(recursive=True))]
    return Resident(sum(info.pss for info in infos), sum(info.rss for info in infos))
