"""What a compiled program depends on beside its own arguments, as one digest."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import jax
from jaxlib import version as jaxlib

_ENGINE: Final = Path(__file__).resolve().parents[1]
_TRACED: Final = ("gguf", "kernels", "model", "programs", "runner")
"""The packages whose code decides what is compiled, and how it is kept."""

_CPU_INFO: Final = Path("/proc/cpuinfo")
_OF_A_PROCESSOR: Final = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags")
_OF_A_PROCESSOR_ARM: Final = ("CPU implementer", "CPU part", "CPU variant", "Features")


def environment_digest(xla_flags: str) -> str:
    """A digest of versions, the code of the steps, the machine and JAX's configuration.

    A program that was compiled where any of it differs may be wrong here or not run at all.

    Args:
        xla_flags: the environment's XLA_FLAGS, which XLA reads by itself.

    Returns:
        64 hexadecimal digits.
    """
    device = jax.devices()[0]
    facts = (
        f"python {sys.version}",
        f"jax {jax.__version__} {jaxlib.__version__}",
        f"{device.platform} {device.device_kind} {device.client.platform_version}",
        f"{platform.machine()} {os.cpu_count()} {sorted(os.sched_getaffinity(0))}",
        *_processor(_CPU_INFO),
        f"XLA_FLAGS {xla_flags}",
        *(f"{name}={value}" for name, value in sorted(jax.config.values.items())),
        _code(),
    )
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()


def _processor(path: Path) -> Iterator[str]:
    """The lines that say what the first processor is and can do; none where the system has none."""
    wanted = (*_OF_A_PROCESSOR, *_OF_A_PROCESSOR_ARM)
    if not path.exists():
        yield platform.processor()
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            if not line.strip():
                return
            if line.split(":")[0].strip() in wanted:
                yield line.strip()


@cache
def _code() -> str:
    """A digest of the modules and native libraries that programs are made of."""
    digest = hashlib.sha256()
    folders = [_ENGINE / name for name in _TRACED]
    files = (path for folder in folders for path in folder.rglob("*"))
    for path in sorted(path for path in files if path.suffix in (".py", ".so")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(_ENGINE)} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()
