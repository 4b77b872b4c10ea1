"""What all models of a process share."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pantheon.engine.config import EngineConfig
from pantheon.engine.die_memory import accelerators, die_readings
from pantheon.engine.dies import DieManager
from pantheon.engine.host_memory import HostMemoryReader
from pantheon.engine.hosts import HostGroup
from pantheon.engine.memory import MemoryLadder, MemoryPressure
from pantheon.engine.programs import ProgramStore
from pantheon.engine.watches import WatchTable


@dataclass(frozen=True, slots=True)
class Shared:
    """One of each for the process.

    Attributes:
        pressure: how much of their window and rows the models may use right now.
        watches: every watch that is held.
        programs: compiled programs of earlier starts; None keeps none.
        dies: the process's dies and what is on them.
        hosts: the processes that follow this one; None where it is alone.
    """

    pressure: MemoryPressure
    watches: WatchTable
    programs: ProgramStore | None = None
    dies: DieManager = field(default_factory=DieManager)
    hosts: HostGroup | None = None

    @staticmethod
    def of(
        config: EngineConfig,
        programs: ProgramStore | None = None,
        dies: DieManager | None = None,
        hosts: HostGroup | None = None,
    ) -> Shared:
        """Make them as configured.

        Args:
            dies: None for the accelerators of this process, as its runtime states them.
        """
        if dies is None:
            dies = DieManager(accelerators(config.die_reserve_bytes, hosts))
        return Shared(
            _pressure(config.pressure_file, dies),
            WatchTable(config.max_watches),
            programs,
            dies,
            hosts,
        )


def _pressure(file: Path | None, dies: DieManager) -> MemoryPressure:
    host = MemoryLadder(HostMemoryReader().used_share, pressure_file=file)
    # The file stands in for every reading.
    readings = die_readings(dies) if file is None else {}
    return MemoryPressure(
        host,
        {
            ordinal: MemoryLadder(reading, of=f"memory of die {ordinal} beside its models")
            for ordinal, reading in readings.items()
        },
    )
