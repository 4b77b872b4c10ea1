"""Memory of the servers as a row of the race."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.goals import Goal
from bench.race_rows import Row
from bench.resident import Resident
from bench.servers import ready_server

GOAL: Final = Goal(1.5)


@dataclass(frozen=True, slots=True)
class MemoryReading:
    """What a server held after its load, and after some requests."""

    loaded: Resident
    used: Resident

    def record(self) -> dict[str, object]:
        """Both readings as JSON."""
        return {"after_load": self.loaded.record(), "after_requests": self.used.record()}


@contextmanager
def bare_process(root: Path, log: Path) -> Iterator[int]:
    """The process id of a gunicorn whose worker has done one product with JAX and no more."""
    command = (
        *(sys.executable, "-m", "gunicorn", "-c", str(root / "bench" / "bare_gunicorn.py")),
        "bench.bare_app",
    )
    with ready_server("bare gunicorn + JAX", root, command, {}, log) as server:
        yield server.pid


def memory_row(
    rows: int, context: int, bare: Resident, ours: MemoryReading, theirs: MemoryReading
) -> Row:
    """What both hold after requests, ours without what a bare process holds already."""
    beyond = ours.used.mib - bare.mib
    return Row(
        f"larger: memory beyond bare ({bare.mib:.0f}; {ours.used.mib:.0f} in all), "
        f"{rows} x {context} tokens",
        "MiB",
        beyond,
        theirs.used.mib,
        GOAL,
        details={
            "bare": bare.record(),
            "pantheon_memory": ours.record(),
            "peer_memory": theirs.record(),
        },
    )
