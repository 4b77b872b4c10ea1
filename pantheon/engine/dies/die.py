"""One die, and which of a process's devices are dies."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from pantheon.engine.dies.device import Device

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Die:
    """A device that holds models.

    Attributes:
        ordinal: its number, from 0, among the devices that the process sees
            (CUDA_VISIBLE_DEVICES-relative).
        card: the card that it is part of.
        budget: bytes that models may take: its memory less the reserve.
        is_local: whether it is one of this process, and not of another host.
    """

    ordinal: int
    card: int
    device: Device
    budget: int
    is_local: bool = True


def find_dies(
    devices: Sequence[Device], reserve_bytes: int, *, memory: Sequence[int] | None = None
) -> tuple[Die, ...]:
    """Every device as a die, in the order in which the runtime lists them.

    A device that does not say how much memory it has is left out, with a line: nothing could be
    admitted by guesses.

    Args:
        reserve_bytes: of each die's memory what models may not take (PN_DIE_RESERVE_BYTES).
        memory: bytes of each device, for those that cannot be asked; None asks all.
    """
    dies: list[Die] = []
    for ordinal, device in enumerate(devices):
        if memory is None:
            size = (device.memory_stats() or {}).get("bytes_limit", 0)
        else:
            size = memory[ordinal]
        if not size:
            _log.warning(
                "device %d (%s) does not say how much memory it has; no model is put on it by "
                "ordinal",
                ordinal,
                device.platform,
            )
            continue
        # A card of several dies shows them one after another; what JAX does not say is one a card.
        card = getattr(device, "local_hardware_id", None)
        dies.append(
            Die(
                ordinal,
                ordinal if card is None else card,
                device,
                max(size - reserve_bytes, 0),
                is_local=getattr(device, "process_index", 0) == 0,
            )
        )
    return tuple(dies)
