"""What is read of a JAX device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Device(Protocol):
    """A device, or in tests what stands in for one."""

    @property
    def platform(self) -> str:
        """`cpu` for the host itself."""
        ...

    def memory_stats(self) -> Mapping[str, Any] | None:
        """Bytes by kind; None where the platform keeps none."""
        ...
