"""What is checked: a device, the CPU that it is compared with, and how large everything is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import jax

from bench.errors import BenchError


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is computed.

    Attributes:
        bandwidth_bytes: of the array whose copy tells the bandwidth; larger than any cache.
        chained: calls of a kernel in one program that is timed.
        tokens: decoded in every row.
        prompt: tokens of the prompt that is prefilled.
        rows: at once.
        cases: of each kernel's cases, the first so many.
    """

    bandwidth_bytes: int
    chained: int
    tokens: int
    prompt: int
    rows: tuple[int, ...]
    cases: int


FULL: Final = Sizes(1 << 30, 20, 64, 512, (1, 2, 4, 8), 99)
TINY: Final = Sizes(1 << 20, 2, 4, 32, (1, 2), 1)
"""For tests on a CPU."""


@dataclass(frozen=True, slots=True)
class Target:
    """A device and what it is compared with."""

    device: jax.Device
    host: jax.Device
    sizes: Sizes

    @property
    def is_gpu(self) -> bool:
        """Whether kernels are compiled for it; on a CPU, where tests try all this, those in
        Pallas are interpreted and those in Triton left out."""
        return bool(self.device.platform == "gpu")

    @property
    def compiler_options(self) -> dict[str, str | bool]:
        """For kernels; interpreted, they are large programs that run for a moment."""
        return {} if self.is_gpu else {"xla_backend_optimization_level": "0"}


def find_target(devices: Sequence[jax.Device], host: jax.Device) -> Target:
    """The first CUDA device.

    Raises:
        BenchError: there is none.
    """
    for device in devices:
        if device.platform == "gpu" and "cuda" in device.client.platform_version.lower():
            return Target(device, host, FULL)
    found = ", ".join(sorted({device.platform for device in devices})) or "none"
    raise BenchError(f"gpu-check: expected a CUDA device, found {found}")
