"""The dies that the runtime states, and how much of their memory is in use."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from functools import partial

import jax

from pantheon.engine.dies import Device, Die, DieManager, find_dies
from pantheon.engine.hosts import HostGroup

_log = logging.getLogger(__name__)


def accelerators(reserve_bytes: int, hosts: HostGroup | None = None) -> tuple[Die, ...]:
    """The dies of this server: its devices that are no CPU; none where there is only that.

    Args:
        reserve_bytes: see `find_dies`.
        hosts: what knows of the memory of other hosts.
    """
    if jax.default_backend() == "cpu":
        if hosts is not None:
            _log.warning("NO ACCELERATOR IS VISIBLE: the processes that follow compute nothing")
        return ()
    return find_dies(jax.devices(), reserve_bytes, memory=None if hosts is None else hosts.memory)


def die_readings(dies: DieManager) -> dict[int, Callable[[], float]]:
    """For each die of this process, by ordinal, a reading for its `MemoryLadder`, 0 to 1.

    What models hold there was admitted and stays: it is no pressure. The reading is of the memory
    beside that, the share of it that something else has: the temporaries of steps and what nobody
    has planned. Only what the allocator of this process gave away counts.
    """
    return {die.ordinal: partial(_share_beside_models, dies, die) for die in dies.local}


def room_beside(device: Device, held: int) -> int:
    """Bytes that a device can ever give beside what a model holds there; no bound where its
    platform states none."""
    limit = (device.memory_stats() or {}).get("bytes_limit")
    return sys.maxsize if limit is None else max(int(limit) - held, 0)


def _share_beside_models(dies: DieManager, die: Die) -> float:
    # Asked first: a model that leaves frees its memory and gives its claim back afterwards.
    claimed = dies.claimed(die)
    stats = die.device.memory_stats() or {}
    limit = stats.get("bytes_limit", 0)
    others = max(stats.get("bytes_in_use", 0) - claimed, 0)
    if not limit or not others:
        return 0.0
    return min(others / (limit - claimed), 1.0) if limit > claimed else 1.0
