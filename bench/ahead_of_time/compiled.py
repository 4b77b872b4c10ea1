"""What is known of a GPU kernel before it has run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from bench.text_table import text_table

BANDWIDTH: Final = 4.8e12
"""Bytes a second between the memory of an H200 and its processors, of NVIDIA's data sheet."""

_HEAD: Final = (
    "kernel",
    "case",
    "sm",
    "registers",
    "spilled",
    "shared",
    "moved MB",
    "least MB",
    "moved/least",
    "at least us",
    "compiled s",
)


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """One kernel compiled for one case and one kind of GPU.

    Attributes:
        kernel, case: names; several kernels of one call have names of their own.
        capability: of the GPU, ten times the number that NVIDIA writes: 80 is A100, 90 is H200.
        registers: of a thread, 255 at most.
        spilled_bytes: of a thread, in memory because they are in no register.
        shared_bytes: of shared memory that a block of threads needs.
        moved_bytes: what loads and stores of the generated code ask for, in the whole grid. What
            the caches answer is in it, and so is what a mask leaves out.
        least_bytes: inputs and outputs, each once.
        seconds: of a processor, for compiling.
    """

    kernel: str
    case: str
    capability: int
    registers: int
    spilled_bytes: int
    shared_bytes: int
    moved_bytes: int
    least_bytes: int
    seconds: float

    @property
    def least_microseconds(self) -> float:
        """What an H200's memory alone makes of `least_bytes`: the roof, not an estimate."""
        return self.least_bytes / BANDWIDTH * 1e6

    def record(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self) | {
            "seconds": round(self.seconds, 2),
            "least_microseconds": round(self.least_microseconds, 3),
        }


def compiled_table(kernels: Sequence[CompiledKernel]) -> str:
    """Kernels as a table for people."""
    return text_table([_HEAD, *(_cells(one) for one in kernels)], left=2)


def spilling(kernels: Sequence[CompiledKernel]) -> list[str]:
    """Name and case of those that do not fit into the registers."""
    return [
        f"{one.kernel}, {one.case}, sm_{one.capability}: {one.spilled_bytes} bytes"
        for one in kernels
        if one.spilled_bytes
    ]


def _cells(one: CompiledKernel) -> tuple[str, ...]:
    return (
        one.kernel,
        one.case,
        str(one.capability),
        str(one.registers),
        str(one.spilled_bytes),
        str(one.shared_bytes),
        f"{one.moved_bytes / 1e6:.3f}",
        f"{one.least_bytes / 1e6:.3f}",
        f"{one.moved_bytes / one.least_bytes:.2f}",
        f"{one.least_microseconds:.2f}",
        f"{one.seconds:.1f}",
    )
