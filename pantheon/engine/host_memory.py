"""How much memory this process may still take, cgroup limits included.

Sources: psutil (`virtual_memory`), and the Linux kernel's documents on control groups: cgroup-v2
("memory.max", "memory.current", "memory.stat") and cgroup-v1/memory ("memory.limit_in_bytes",
"memory.usage_in_bytes").
"""

from __future__ import annotations

import logging
import os
import stat
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

import psutil

_log: Final = logging.getLogger(__name__)

_MAX_FILE_BYTES: Final = 64 * 1024
_MAX_DEPTH: Final = 64
_NO_LIMIT: Final = "max"


@dataclass(frozen=True, slots=True)
class HostMemory:
    """Memory in bytes.

    Attributes:
        total: what this process and its neighbours in the tightest cgroup may have together.
        available: what of it can be had without swapping; the page cache counts as available.
    """

    total: int
    available: int

    @property
    def used_share(self) -> float:
        """The share in use; 1 and more when there is nothing left."""
        return 1.0 - self.available / self.total if self.total > 0 else 1.0


class MachineMemory(Protocol):
    """What is read of `psutil.virtual_memory()`; bytes."""

    @property
    def total(self) -> int: ...

    @property
    def available(self) -> int: ...


@dataclass(frozen=True, slots=True)
class _Version:
    """The names of one version of cgroups: where they are mounted, and their files."""

    mounts: tuple[str, ...]
    limit: str
    usage: str
    reclaimable: str


_V2: Final = _Version(("", "unified"), "memory.max", "memory.current", "inactive_file")
_V1: Final = _Version(
    ("memory",), "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
)


class FileDamaged(Exception):
    """A file does not hold what it should. The message says what was expected and what came."""


class HostMemoryReader:
    """Reads the memory of the machine and of every cgroup that this process is in.

    A limit holds for all that is below it, so of the groups from the process's own up to the root
    the tightest counts. What cannot be read or understood is left out with one line in the log.
    Safe to use from any thread.
    """

    def __init__(
        self,
        proc: Path = Path("/proc"),
        cgroups: Path = Path("/sys/fs/cgroup"),
        machine: Callable[[], MachineMemory] = psutil.virtual_memory,
    ) -> None:
        """Read below these folders.

        Args:
            proc: where procfs is mounted.
            cgroups: where cgroups are mounted.
            machine: the memory of the whole machine.
        """
        self._proc = proc
        self._cgroups = cgroups
        self._machine = machine
        self._lock = threading.Lock()
        self._complaints: set[Path] = set()

    def read(self) -> HostMemory:
        """The memory right now."""
        bounds = tuple(self._bounds())
        total = min(bound.total for bound in bounds)
        available = min(bound.available for bound in bounds)
        return HostMemory(total, max(0, min(available, total)))

    def used_share(self) -> float:
        """The share in use right now, 0 to 1: of the machine or of a cgroup, whichever is worse."""
        return min(1.0, max(bound.used_share for bound in self._bounds()))

    def _bounds(self) -> Iterator[HostMemory]:
        """The machine and every group that has a limit."""
        machine = self._machine()
        yield HostMemory(machine.total, machine.available)
        for folder, version in self._groups():
            group = self._group(folder, version)
            if group is not None:
                yield group

    def _groups(self) -> Iterator[tuple[Path, _Version]]:
        """Every folder from each group of this process up to where its version is mounted."""
        membership = self._proc / "self" / "cgroup"
        text = self._text(membership)
        for line in (text or "").splitlines():
            hierarchy, controllers, path = (*line.split(":", 2), "", "")[:3]
            if not path.startswith("/"):
                self._complain(membership, f"expected lines as 0::/path, got {line[:80]!r}")
                continue
            if hierarchy == "0" and not controllers:
                version = _V2
            elif "memory" in controllers.split(","):
                version = _V1
            else:
                continue
            for mount in version.mounts:
                for folder in _upwards(path):
                    yield self._cgroups / mount / folder, version

    def _group(self, folder: Path, version: _Version) -> HostMemory | None:
        """The memory of one group; None where it has no limit or is not to be seen from here."""
        limit_file, usage_file = folder / version.limit, folder / version.usage
        try:
            limit_text = _read(limit_file)
            # A process in a container may be told of a path that only exists outside.
            if limit_text is None or limit_text.strip() == _NO_LIMIT:
                return None
            limit = _bytes(limit_file, limit_text)
            usage_text = _read(usage_file)
            usage = 0 if usage_text is None else _bytes(usage_file, usage_text)
        except FileDamaged as error:
            self._complain(folder, str(error))
            return None
        return HostMemory(limit, limit - max(0, usage - self._reclaimable(folder, version)))

    def _reclaimable(self, folder: Path, version: _Version) -> int:
        """Bytes of page cache that the kernel takes back before anything else."""
        file = folder / "memory.stat"
        for line in (self._text(file) or "").splitlines():
            name, _, value = line.partition(" ")
            if name == version.reclaimable:
                try:
                    return _bytes(file, value)
                except FileDamaged as error:
                    self._complain(file, str(error))
        return 0

    def _text(self, file: Path) -> str | None:
        try:
            return _read(file)
        except FileDamaged as error:
            self._complain(file, str(error))
            return None

    def _complain(self, about: Path, message: str) -> None:
        with self._lock:
            if about in self._complaints:
                return
            self._complaints.add(about)
        _log.warning("memory limits: %s; it is left out", message)


def host_memory() -> HostMemory:
    """The memory of this machine and process right now."""
    return HostMemoryReader().read()


def read_text(file: Path, max_bytes: int) -> str | None:
    """The text of a small regular file; None where there is no file. Never waits.

    Raises:
        FileDamaged: it is no regular file, too long, no text, or cannot be read.
    """
    try:
        # Without O_NONBLOCK opening a pipe would wait for a writer.
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise FileDamaged(f"expected {file} to be a file, got something else")
            data = b""
            while len(data) <= max_bytes and (part := os.read(descriptor, max_bytes + 1)):
                data += part
        finally:
            os.close(descriptor)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise FileDamaged(f"{file} cannot be read: {error.strerror}") from None
    if len(data) > max_bytes:
        raise FileDamaged(f"expected at most {max_bytes} bytes in {file}, got more")
    try:
        return data.decode("ascii")
    except UnicodeDecodeError:
        raise FileDamaged(f"expected ASCII text in {file}, got {data[:40]!r}") from None


def _read(file: Path) -> str | None:
    return read_text(file, _MAX_FILE_BYTES)


def _bytes(file: Path, text: str) -> int:
    digits = text.strip()
    if not digits.isdecimal() or len(digits) > 20:
        raise FileDamaged(f"expected a number of bytes in {file}, got {text[:40]!r}")
    return int(digits)


def _upwards(path: str) -> Iterator[str]:
    """A group's path without its leading slash, its parent's and so on, to that of the root."""
    # `..` leads out of a namespace, to where nothing is to be seen from here.
    parts = [part for part in PurePosixPath(path).parts[1:] if part != ".."]
    for length in range(min(len(parts), _MAX_DEPTH), -1, -1):
        yield "/".join(parts[:length])
