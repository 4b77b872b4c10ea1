"""Which implementation a model takes on a platform, and what that means for each operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from types import MappingProxyType
from typing import Final

from pantheon.engine.kernels import (
    causal_conv,
    expert_matmul,
    gated_delta_rule,
    packed_matmul,
    paged_attention,
    row_wise,
)
from pantheon.engine.kernels.implementation import Implementation

__all__ = ["Choice", "Implementation", "chosen_line", "implementation_for", "platform_of"]

_OPERATIONS: Final[Mapping[str, Mapping[Implementation, str]]] = MappingProxyType(
    {
        "attention": paged_attention.CHOSEN,
        "delta rule": gated_delta_rule.CHOSEN,
        "convolution": causal_conv.CHOSEN,
        "rows": row_wise.CHOSEN,
        "products": packed_matmul.CHOSEN,
        "experts": expert_matmul.CHOSEN,
    }
)

_TRITON: Final = ("triton", "jax_triton")


@dataclass(frozen=True, slots=True)
class Choice:
    """An implementation.

    Attributes:
        missing: why it is not the fastest of the platform, in words; None where it is, or where
            that was asked for.
    """

    implementation: Implementation
    missing: str | None = None


def implementation_for(
    platform: str,
    *,
    kernels: bool,
    native_missing: Callable[[], str | None],
    has_package: Callable[[str], bool] = lambda name: find_spec(name) is not None,
) -> Choice:
    """Choose by the platform of the devices.

    Args:
        platform: `cpu`, `cuda`, or any other of JAX's; see `platform_of`.
        kernels: whether kernels of ours may be taken; else it is plain XLA.
        native_missing: why the native kernels cannot be used; only asked on a CPU.
        has_package: whether a package is installed; only asked where there is a GPU.
    """
    if not kernels:
        return Choice(Implementation.XLA)
    if platform == "cpu":
        missing = native_missing()
        return Choice(Implementation.XLA if missing else Implementation.NATIVE, missing)
    if platform == "cuda":
        absent = [name for name in _TRITON if not has_package(name)]
        if absent:
            return Choice(Implementation.XLA, f"{' and '.join(absent)} not installed")
        return Choice(Implementation.GPU)
    return Choice(Implementation.XLA, f"there are none for the platform {platform}")


def platform_of(platform: str, version: str) -> str:
    """The name of a platform by which it is chosen.

    Args:
        platform: as a JAX device states it, which says `gpu` of those of all makers.
        version: `platform_version` of its client.
    """
    if platform != "gpu":
        return platform
    return "cuda" if "cuda" in version.lower() else "rocm"


def chosen_line(implementation: Implementation) -> str:
    """What computes each operation, in one line."""
    return "; ".join(f"{name}: {table[implementation]}" for name, table in _OPERATIONS.items())
