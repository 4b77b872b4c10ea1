"""Instruction sets: what the processor has, and what a llama.cpp build uses.

The build is told each set by name. Its own probe (GGML_NATIVE) compiles for what the compiler
believes of the host, and under some hypervisors the result dies of an illegal instruction.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bench.errors import BenchError

_AVX512: Final = ("avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl")
"""What the compiler may use once GGML_AVX512 is on."""

SWITCHES: Final[Mapping[str, tuple[str, ...]]] = {
    "AVX": ("avx",),
    "AVX2": ("avx2",),
    "FMA": ("fma",),
    "F16C": ("f16c",),
    "BMI2": ("bmi2",),
    "AVX512": _AVX512,
    "AVX512_VBMI": (*_AVX512, "avx512_vbmi", "avx512vbmi"),
    "AVX512_VNNI": (*_AVX512, "avx512_vnni"),
}
"""CMake switches without their prefix GGML_, each with the processor flags that it needs.

A build names its features by the same words.
"""

_ALIASES: Final = frozenset({"avx512_vbmi", "avx512vbmi"})
"""One flag under the names that kernels have given it."""


def processor_flags(cpuinfo: str) -> frozenset[str]:
    """The `flags` of the first processor in the text of /proc/cpuinfo.

    Empty on other architectures than x86, which name theirs otherwise.
    """
    found = re.search(r"^flags[ \t]*:(.*)$", cpuinfo, re.MULTILINE)
    flags = set(found.group(1).split()) if found else set()
    return frozenset(flags | _ALIASES if flags & _ALIASES else flags)


def read_cpuinfo() -> str:
    """The text of /proc/cpuinfo, empty where the system has none."""
    file = Path("/proc/cpuinfo")
    return file.read_text() if file.exists() else ""


def usable(flags: frozenset[str]) -> tuple[str, ...]:
    """The names in `SWITCHES` that a processor with these flags can run."""
    return tuple(name for name, needed in SWITCHES.items() if flags.issuperset(needed))


def cmake_arguments(flags: frozenset[str]) -> str:
    """CMAKE_ARGS of a llama.cpp build for a processor with these flags."""
    on = usable(flags)
    switches = (f"-DGGML_{name}={'ON' if name in on else 'OFF'}" for name in SWITCHES)
    return " ".join(("-DGGML_NATIVE=OFF", *switches))


def build_features(output: str) -> tuple[str, ...]:
    """The features that a llama.cpp program names in its `system_info` line, in its order.

    Raises:
        BenchError: the output has no such line.
    """
    found = re.search(r"system_info:(.*)$", output, re.MULTILINE)
    if found is None:
        raise BenchError(f"llama.cpp did not tell its build's features; it said:\n{output[-2000:]}")
    return tuple(re.findall(r"(\w+) = 1(?= \|)", found.group(1)))
