"""Parsers of the texts of settings; each raises ValueError with its rule."""

from __future__ import annotations

from ipaddress import AddressValueError, IPv6Address
from pathlib import Path

from pantheon.engine.precision import Precision


def host_name(text: str) -> str:
    """A host name or an address."""
    if any(character.isspace() or not character.isprintable() for character in text):
        raise ValueError(f"expected a host name or an address, got {text!r}")
    return text


def address(text: str) -> tuple[str, int]:
    """`HOST:PORT`, with the port above it free as well. An address of IPv6 stands in brackets,
    which are not part of the host.
    """
    host, colon, port = text.rpartition(":")
    number = int(port) if port.isascii() and port.isdigit() and len(port) <= 5 else 0
    if not colon or not host or not 0 < number < 65535:
        raise ValueError(f"expected HOST:PORT with a port from 1 to 65534, got {text!r}")
    if not set(host) & set(":[]"):
        return host_name(host), number
    try:
        if not host.startswith("[") or not host.endswith("]"):
            raise AddressValueError
        return str(IPv6Address(host[1:-1])), number
    except AddressValueError:
        raise ValueError(
            f"expected a host name, an address of IPv4, or one of IPv6 in brackets, got {text!r}"
        ) from None


def share(text: str) -> float:
    """A number in (0, 1]."""
    rule = f"expected a number above 0 and at most 1, got {text!r}"
    try:
        value = float(text)
    except ValueError:
        raise ValueError(rule) from None
    if not 0.0 < value <= 1.0:
        raise ValueError(rule)
    return value


def precision(text: str) -> Precision:
    """`default` or `float32`."""
    try:
        return Precision(text)
    except ValueError:
        names = " or ".join(one.value for one in Precision)
        raise ValueError(f"expected {names}, got {text!r}") from None


def one_worker(text: str) -> int:
    """The number of workers, which is one."""
    if text != "1":
        raise ValueError(
            f"expected 1, got {text!r}: models and sessions live in one process, so the server "
            "runs as one worker with threads"
        )
    return 1


def path(text: str) -> Path:
    """A file or folder, which need not exist; `~` is the user's home."""
    if "\0" in text:
        raise ValueError(f"expected a path without NUL, got {text!r}")
    return Path(text).expanduser()


def folder(text: str) -> Path:
    """A folder that exists.

    Raises:
        ValueError: it does not.
    """
    found = path(text)
    if not found.is_dir():
        raise ValueError(f"expected a folder that exists, got {text!r}")
    return found


def switchable_path(text: str) -> Path | None:
    """A path, or `off` for none."""
    return None if text == "off" else path(text)
