"""How much of each die's memory is in use, as its runtime states it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import jax


class Device(Protocol):
    """What is read of a JAX device."""

    @property
    def platform(self) -> str:
        """`cpu` for the host itself."""
        ...

    def memory_stats(self) -> Mapping[str, Any] | None:
        """Bytes by kind; None where the platform keeps none."""
        ...


def die_readings(devices: Sequence[Device] | None = None) -> list[Callable[[], float]]:
    """For each accelerator a reading of the share of its memory in use, 0 to 1.

    The host's own device is left out: its memory is the host's.

    Args:
        devices: None for those of this process.
    """
    found: Sequence[Device] = jax.devices() if devices is None else devices
    return [partial(_used_share, device) for device in found if device.platform != "cpu"]


def room_beside(device: Device, held: int) -> int:
    """Bytes that a device can ever give beside what a model holds there; no bound where its
    platform states none."""
    limit = (device.memory_stats() or {}).get("bytes_limit")
    return sys.maxsize if limit is None else max(int(limit) - held, 0)


def _used_share(device: Device) -> float:
    stats = device.memory_stats() or {}
    limit = stats.get("bytes_limit", 0)
    return min(stats.get("bytes_in_use", 0) / limit, 1.0) if limit else 0.0
