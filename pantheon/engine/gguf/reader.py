"""An open GGUF model: memory-mapped, parsed and checked once, tensors handed out as views."""

import mmap
import os
import stat
from pathlib import Path
from types import TracebackType

import numpy as np

from pantheon.engine.gguf.errors import GGUFError
from pantheon.engine.gguf.header import Header, parse_header
from pantheon.engine.gguf.metadata import Metadata
from pantheon.engine.gguf.shards import Split, read_split, shard_paths
from pantheon.engine.gguf.tensor import Tensor, TensorInfo


class GGUFFile:
    """A GGUF model of version 2 or 3, little-endian, in one file or split over several.

    Opening reads the metadata and the tensor tables; weights are not touched until `tensor` is
    asked and its view is read. The maps stay open until `close` and until the last view of a
    tensor is gone. A file that another process truncates while it is mapped ends this process
    with SIGBUS when the lost part is read: replace model files by renaming, never in place.

    Attributes:
        path: The file, the first one of a split model.
        version: GGUF version, 2 or 3.
        metadata: Typed access to the key/value section, the first file's of a split model.
        tensors: The tensor tables by name, in file order.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Map and check the file; the others of a split model are found by its name.

        Raises:
            GGUFError: a file cannot be opened, is damaged, or is not supported; the files of a
                split model do not belong together, or one is missing.
        """
        self.path = Path(path)
        first = _Part(self.path)
        self._parts: dict[str, _Part] = dict.fromkeys(first.header.tensors, first)
        """The file of each tensor."""
        self.version = first.header.version
        self.metadata: Metadata = first.header.metadata
        self.tensors: dict[str, TensorInfo] = dict(first.header.tensors)
        self._closed = False
        self._identity: tuple[tuple[int, ...], ...] = (first.identity,)
        split = _split_of(first)
        for index, shard in enumerate(shard_paths(self.path, split)[1:], start=1):
            self._add(_Part(shard), index, split)
        if split.tensors is not None and split.tensors != len(self.tensors):
            raise GGUFError(
                f"{self.path.name} says that its {split.count} files hold {split.tensors} tensors "
                f"(split.tensors.count), found {len(self.tensors)}"
            )

    def _add(self, part: "_Part", index: int, split: Split) -> None:
        found = _split_of(part)
        if (found.index, found.count) != (index, split.count):
            raise GGUFError(
                f"{part.path.name} must be file {index + 1} of {split.count} of a split model; it "
                f"says that it is file {found.index + 1} of {found.count}"
            )
        twice = min(self.tensors.keys() & part.header.tensors.keys(), default=None)
        if twice is not None:
            raise GGUFError(
                f"tensor name {twice!r} occurs in {self._parts[twice].path.name} and in "
                f"{part.path.name}; names must be unique"
            )
        self._identity += (part.identity,)
        self.tensors.update(part.header.tensors)
        self._parts.update(dict.fromkeys(part.header.tensors, part))

    @property
    def architecture(self) -> str:
        """`general.architecture`.

        Raises:
            GGUFError: the key is missing or no string.
        """
        return self.metadata.string("general.architecture")

    @property
    def identity(self) -> tuple[tuple[int, ...], ...]:
        """Of each file device, inode, size, and times of modification and change in ns.

        It differs whenever the content does, but for a file that is written while it is looked at.
        """
        return self._identity

    def tensor(self, name: str, shape: tuple[int, ...] | None = None) -> Tensor:
        """The named tensor as a view of its file; nothing is copied.

        Args:
            name: Name in the file.
            shape: Logical row-major shape that the tensor must have, when given.

        Raises:
            GGUFError: the tensor is missing or has another shape, or the file is closed.
        """
        if self._closed:
            raise GGUFError(f"{self.path.name} is closed; tensor {name!r} cannot be read")
        info = self.tensors.get(name)
        if info is None:
            raise GGUFError(
                f"tensor {name!r} is missing from {self.path.name}: architecture "
                f"{self.architecture!r} needs it; the file holds {len(self.tensors)} other tensors"
                + (f", expected shape {shape}" if shape is not None else "")
            )
        if shape is not None and info.shape != tuple(shape):
            raise GGUFError(
                f"tensor {name!r} in {self.path.name} has the wrong shape for architecture "
                f"{self.architecture!r}: expected {tuple(shape)}, found {info.shape}"
            )
        return self._parts[name].tensor(info)

    def close(self) -> None:
        """Give the maps back. Views that are still alive keep their bytes until they are gone."""
        self._closed = True
        self._parts = {}

    def __enter__(self) -> "GGUFFile":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class _Part:
    """One mapped file."""

    __slots__ = ("_buffer", "header", "identity", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.identity, mapped = _map_file(path)
        self._buffer = mapped or b""
        self.header: Header
        try:
            self.header = parse_header(memoryview(self._buffer))
        except GGUFError as error:
            raise GGUFError(f"{path.name}: {error}") from None

    def tensor(self, info: TensorInfo) -> Tensor:
        start = self.header.data_start + info.offset
        flat = np.frombuffer(self._buffer, dtype=np.uint8, count=info.size, offset=start)
        packed = flat.reshape(*info.shape[:-1], info.row_bytes)
        return Tensor(info.name, info.type, info.shape, packed)


def _split_of(part: _Part) -> Split:
    try:
        return read_split(part.header.metadata)
    except GGUFError as error:
        raise GGUFError(f"{part.path.name}: {error}") from None


def _map_file(path: Path) -> tuple[tuple[int, ...], mmap.mmap | None]:
    """The file's identity and its map, None for an empty one, which cannot be mapped."""
    try:
        # O_NONBLOCK: opening a FIFO would otherwise wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise GGUFError(f"cannot open {str(path)!r}: {reason}") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise GGUFError(f"cannot open {str(path)!r}: it is no regular file")
        identity = (
            *(status.st_dev, status.st_ino, status.st_size),
            *(status.st_mtime_ns, status.st_ctime_ns),
        )
        if status.st_size == 0:
            return identity, None
        return identity, mmap.mmap(descriptor, status.st_size, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        if isinstance(error, GGUFError):
            raise
        raise GGUFError(f"cannot map {str(path)!r}: {error}") from error
    finally:
        os.close(descriptor)
