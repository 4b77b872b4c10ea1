"""An open GGUF file: memory-mapped, parsed and checked once, tensors handed out as views."""

import mmap
import os
import stat
from pathlib import Path
from types import TracebackType

import numpy as np

from pantheon.engine.gguf.errors import GGUFError
from pantheon.engine.gguf.header import parse_header
from pantheon.engine.gguf.metadata import Metadata
from pantheon.engine.gguf.tensor import Tensor, TensorInfo


class GGUFFile:
    """A GGUF file of version 2 or 3, little-endian, in one part.

    Opening reads the metadata and the tensor table; weights are not touched until `tensor` is
    asked and its view is read. The map stays open until `close` and until the last view of a
    tensor is gone. A file that another process truncates while it is mapped ends this process
    with SIGBUS when the lost part is read: replace model files by renaming, never in place.

    Attributes:
        path: The file.
        version: GGUF version, 2 or 3.
        metadata: Typed access to the key/value section.
        tensors: The tensor table by name, in file order.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Map and check the file.

        Raises:
            GGUFError: the file cannot be opened, is damaged, or is not supported.
        """
        self.path = Path(path)
        self._map = _map_file(self.path)
        try:
            header = parse_header(memoryview(self._map or b""))
        except GGUFError as error:
            raise GGUFError(f"{self.path.name}: {error}") from None
        self.version = header.version
        self.metadata: Metadata = header.metadata
        self.tensors: dict[str, TensorInfo] = header.tensors
        self._data_start = header.data_start
        self._closed = False

    @property
    def architecture(self) -> str:
        """`general.architecture`.

        Raises:
            GGUFError: the key is missing or no string.
        """
        return self.metadata.string("general.architecture")

    def tensor(self, name: str, shape: tuple[int, ...] | None = None) -> Tensor:
        """The named tensor as a view of the file; nothing is copied.

        Args:
            name: Name in the file.
            shape: Logical row-major shape that the tensor must have, when given.

        Raises:
            GGUFError: the tensor is missing or has another shape, or the file is closed.
        """
        if self._closed or self._map is None:
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
        start = self._data_start + info.offset
        flat = np.frombuffer(self._map, dtype=np.uint8, count=info.size, offset=start)
        packed = flat.reshape(*info.shape[:-1], info.row_bytes)
        return Tensor(info.name, info.type, info.shape, packed)

    def close(self) -> None:
        """Give the map back. Views that are still alive keep their bytes until they are gone."""
        self._closed = True
        self._map = None

    def __enter__(self) -> "GGUFFile":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _map_file(path: Path) -> mmap.mmap | None:
    """The mapped file, or None for an empty one, which cannot be mapped."""
    try:
        # O_NONBLOCK: opening a FIFO would otherwise wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise GGUFError(f"cannot open {str(path)!r}: {error}") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise GGUFError(f"cannot open {str(path)!r}: it is no regular file")
        if status.st_size == 0:
            return None
        return mmap.mmap(descriptor, status.st_size, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        if isinstance(error, GGUFError):
            raise
        raise GGUFError(f"cannot map {str(path)!r}: {error}") from error
    finally:
        os.close(descriptor)
