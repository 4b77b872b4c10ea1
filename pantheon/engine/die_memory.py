"""The dies that the runtime states, and how much of their memory is in use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial

import jax

from pantheon.engine.dies import Device, Die, find_dies
from pantheon.engine.hosts import HostGroup


def accelerators(reserve_bytes: int, hosts: HostGroup | None = None) -> tuple[Die, ...]:
    """The dies of this server: its devices that are no CPU; none where there is only that.

    Args:
        reserve_bytes: see `find_dies`.
        hosts: what knows of the memory of other hosts.
    """
    if jax.default_backend() == "cpu":
        return ()
    return find_dies(jax.devices(), reserve_bytes, memory=None if hosts is None else hosts.memory)


def die_readings(devices: Sequence[Device] | None = None) -> list[Callable[[], float]]:
    """For each accelerator a reading of the share of its memory in use, 0 to 1.

    The host's own device is left out: its memory is the host's.

    Args:
        devices: None for those of this process.
    """
    found: Sequence[Device] = jax.local_devices() if devices is None else devices
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
