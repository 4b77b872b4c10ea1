"""A folder of checked files which nobody but its owner can have written."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
import os
import re
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

_log: Final = logging.getLogger(__name__)

_MAGIC: Final = b"pantheon file 1\n"
_NAME: Final = re.compile(r"[0-9a-z.-]{1,100}")
_DIGEST_BYTES: Final = 32
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_ABANDONED_S: Final = 3600.0
"""Age at which a file that was never finished belongs to a process that was killed."""


class FolderRefused(Exception):
    """The folder cannot be trusted or not be written. The message is one line."""


@dataclass(frozen=True, slots=True)
class PrivateFolder:
    """Files by name, each written whole or not at all and checked when it is read.

    What it holds is given to readers that run what they are given, so that a file counts only if
    it and the folder are the user's own and nobody else can write to them. Several processes may
    use one folder.

    Attributes:
        path: the folder.
        most_bytes: what all files may take together; the least recently used go first.
        largest: most bytes of one file.
    """

    path: Path
    most_bytes: int = 2 << 30
    largest: int = 512 << 20

    @classmethod
    def open(cls, path: Path) -> PrivateFolder:
        """Make the folder where there is none, and check it.

        Raises:
            FolderRefused: it cannot be made, or others own it or may write to it.
        """
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = path.lstat()
        except OSError as error:
            raise FolderRefused(f"{path} cannot be used: {error.strerror}") from error
        if not stat.S_ISDIR(status.st_mode):
            raise FolderRefused(f"{path} must be a folder and no link")
        if status.st_uid != os.geteuid():
            raise FolderRefused(
                f"{path} must belong to user {os.geteuid()}, got user {status.st_uid}"
            )
        if status.st_mode & _OTHERS_WRITE:
            raise FolderRefused(
                f"{path} must be writable by its owner alone, got mode {status.st_mode & 0o777:o}"
            )
        return cls(path)

    def has(self, name: str) -> bool:
        """Whether there is a file of that name; `read` may refuse it all the same.

        Raises:
            ValueError: no file may have that name.
        """
        return self._path(name).exists()

    def read(self, name: str) -> bytes | None:
        """The content of a file; None, with a line in the log, for one that is not as written.

        Raises:
            ValueError: no file may have that name.
        """
        path = self._path(name)
        try:
            data = self._read(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            _log.warning("%s is not used: %s", path, error.strerror)
            return None
        content = _checked(name, data)
        if content is None:
            _log.warning("%s is not used: it is damaged", path)
        return content

    def write(self, name: str, content: bytes) -> bool:
        """Put a file in place whole, and make room; whether it was possible.

        Raises:
            ValueError: no file may have that name.
        """
        path = self._path(name)
        data = _MAGIC + _digest(name, content) + content
        if len(data) > self.largest:
            _log.warning("%s is not kept: %d bytes are too many", path, len(data))
            return False
        try:
            with NamedTemporaryFile(dir=self.path, prefix=".new-", delete=False) as file:
                partial = Path(file.name)
                try:
                    file.write(data)
                    file.flush()
                    partial.replace(path)
                except BaseException:
                    partial.unlink(missing_ok=True)
                    raise
        except OSError as error:
            _log.warning("%s is not kept: %s", path, error.strerror)
            return False
        self._make_room(path)
        return True

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name) or name.startswith("."):
            raise ValueError(f"a file's name must match {_NAME.pattern}, got {name!r:.100}")
        return self.path / name

    def _read(self, path: Path) -> bytes:
        """All bytes of a file, whose age begins anew.

        Raises:
            OSError: it cannot be read, or somebody else can have written it.
        """
        # Neither a link is followed nor a pipe waited for.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "it is no file")
            if status.st_uid != os.geteuid() or status.st_mode & _OTHERS_WRITE:
                raise OSError(errno.EPERM, "somebody else can have written it")
            if status.st_size > self.largest:
                raise OSError(errno.EFBIG, f"{status.st_size} bytes are too many")
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                data = file.read(self.largest + 1)
            with contextlib.suppress(OSError):  # Its age only decides which goes first.
                os.utime(descriptor)
            return data
        finally:
            os.close(descriptor)

    def _make_room(self, newest: Path) -> None:
        """Remove the least recently used files, and what killed processes left unfinished."""
        files, now = [], time.time()
        for path in self.path.iterdir():
            # Another process may have removed it meanwhile.
            with contextlib.suppress(OSError):
                status = path.lstat()
                if path.name.startswith(".new-"):
                    if now - status.st_mtime > _ABANDONED_S:
                        path.unlink()
                elif path != newest and stat.S_ISREG(status.st_mode):
                    files.append((status.st_mtime_ns, status.st_size, path))
        with contextlib.suppress(OSError):
            left = self.most_bytes - newest.lstat().st_size
            for _, size, path in sorted(files, reverse=True):
                left -= size
                if left < 0:
                    path.unlink(missing_ok=True)


def _digest(name: str, content: bytes) -> bytes:
    # The name is part of it: a file that was given another's name is not that one.
    return hashlib.sha256(name.encode() + b"\n" + content).digest()


def _checked(name: str, data: bytes) -> bytes | None:
    """The content of a file as `write` makes it; None where any byte differs."""
    start = len(_MAGIC) + _DIGEST_BYTES
    content = data[start:]
    expected = _MAGIC + _digest(name, content)
    return content if data[:start] == expected else None
