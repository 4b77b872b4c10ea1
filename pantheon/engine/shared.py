"""What all models of a process share."""

from __future__ import annotations

from dataclasses import dataclass

from pantheon.engine.config import EngineConfig
from pantheon.engine.die_memory import die_readings
from pantheon.engine.host_memory import HostMemoryReader
from pantheon.engine.memory import MemoryLadder
from pantheon.engine.programs import ProgramStore
from pantheon.engine.watches import WatchTable


@dataclass(frozen=True, slots=True)
class Shared:
    """One of each for the process.

    Attributes:
        ladder: how much of their window and rows the models may use right now.
        watches: every watch that is held.
        programs: compiled programs of earlier starts; None keeps none.
    """

    ladder: MemoryLadder
    watches: WatchTable
    programs: ProgramStore | None = None

    @staticmethod
    def of(config: EngineConfig, programs: ProgramStore | None = None) -> Shared:
        """Make them as configured."""
        return Shared(
            MemoryLadder(
                [HostMemoryReader().used_share, *die_readings()],
                pressure_file=config.pressure_file,
            ),
            WatchTable(config.max_watches),
            programs,
        )
