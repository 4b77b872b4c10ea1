"""The processor's peaks, measured by a small C++ program that is compiled on the spot."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.errors import BenchError
from bench.processor import processor_flags, read_cpuinfo, usable

_SOURCE: Final = Path(__file__).with_name("peaks.cpp")
_BUFFER_BYTES: Final = 512 << 20
"""Larger than any cache."""

_COMPILE_SECONDS: Final = 120.0
_RUN_SECONDS: Final = 120.0
_NEEDED: Final = ("AVX2", "FMA")
_WIDER: Final = ("-mavx512f", "-mavx512bw")


@dataclass(frozen=True, slots=True)
class Peaks:
    """What some threads do at best.

    Attributes:
        float32: fused multiply-adds per second.
        int16: multiply-adds per second, pairs added in int32.
        bytes: read from memory per second.
    """

    threads: int
    float32: float
    int16: float
    bytes: float

    def record(self) -> dict[str, Any]:
        """The numbers as JSON."""
        return {
            "threads": self.threads,
            "float32_macs_per_s": self.float32,
            "int16_macs_per_s": self.int16,
            "bytes_per_s": self.bytes,
        }


def measure_peaks(folder: Path) -> tuple[Peaks, Peaks]:
    """The peaks of one thread, and of as many as there are processors.

    Args:
        folder: for the program.

    Raises:
        BenchError: the processor has no AVX2, or there is no compiler.
    """
    found = usable(processor_flags(read_cpuinfo()))
    if not set(_NEEDED) <= set(found):
        raise BenchError(
            f"the probes need a processor with {' and '.join(_NEEDED)}, got {', '.join(found)}"
        )
    program = folder / "peaks"
    wider = _WIDER if "AVX512" in found else ()
    compiler = os.environ.get("CXX", "g++")
    command = (compiler, "-std=c++17", "-O2", "-mavx2", "-mfma", *wider, "-pthread")
    _output((*command, "-o", str(program), str(_SOURCE)), _COMPILE_SECONDS)
    one, all_of_them = (_peaks(program, threads) for threads in (1, len(os.sched_getaffinity(0))))
    return one, all_of_them


def _peaks(program: Path, threads: int) -> Peaks:
    text = _output((str(program), str(threads), str(_BUFFER_BYTES)), _RUN_SECONDS)
    found = json.loads(text)
    return Peaks(threads, found["float32"], found["int16"], found["bytes"])


def _output(command: tuple[str, ...], seconds: float) -> str:
    try:
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
            text=True,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BenchError(f"{Path(command[0]).name} does not run: {error}") from error
    if result.returncode:
        raise BenchError(
            f"{Path(command[0]).name} ended with status {result.returncode}:\n"
            f"{result.stderr[-2000:]}"
        )
    return result.stdout
