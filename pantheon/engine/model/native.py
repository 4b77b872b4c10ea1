"""Whether the native kernels can be used."""

from __future__ import annotations

from pantheon.engine.kernels.native import native_library


def native_missing() -> str | None:
    """Why the native kernels cannot be used in this process, in words; None where they can.

    The first call loads them and starts their threads.
    """
    return native_library().missing
