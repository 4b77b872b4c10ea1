"""Whether the native kernels can be used."""

from __future__ import annotations

from pantheon.engine.kernels.native import native_library


def native_missing() -> str | None:
    """Why the native kernels cannot be used in this process, in words; None where they can.

    The first call loads them and starts their threads.
    """
    return native_library().missing


def promised_bytes() -> int:
    """Bytes of caches that are allocated and whose memory is not taken yet.

    The system counts them as free. The native kernels must be there.
    """
    return native_library().untaken_bytes()


def stop_taking() -> None:
    """Stop taking the memory of caches in the background, before one of them goes.

    The native kernels must be there.
    """
    native_library().stop_taking()
