"""Devices that say what a test wants of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class FakeDevice:
    """See `pantheon.engine.dies.Device`."""

    stats: Mapping[str, Any] | None = None
    platform: str = "gpu"
    local_hardware_id: int | None = None

    def memory_stats(self) -> Mapping[str, Any] | None:
        return self.stats


def devices_of(*memory: int) -> list[FakeDevice]:
    """A device for each number of bytes."""
    return [FakeDevice({"bytes_limit": size, "bytes_in_use": 0}) for size in memory]
