"""Finds, checks and registers the library."""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Final

import jax
import numpy as np
from numpy.typing import NDArray

_FOLDER: Final = Path(__file__).parent
_NAME: Final = re.compile(r"libpantheon-ffi-(\d+)\.(\d+)\.so")
_OPERATIONS: Final = (
    "pantheon_multiply",
    "pantheon_take_rows",
    "pantheon_attend",
    "pantheon_write_pages",
    "pantheon_zeros",
    "pantheon_rms_norm",
    "pantheon_add_rms_norm",
    "pantheon_silu_product",
    "pantheon_rotation",
    "pantheon_rotate",
    "pantheon_largest",
    "pantheon_dense_layers",
)
_BOOLEAN: Final = (
    "pantheon_has_instruction_set",
    "pantheon_has_source",
    "pantheon_interleave",
    "pantheon_start",
)
"""Functions that return a bool."""

_NUMBERS: Final = (
    "pantheon_best_instruction_set",
    "pantheon_block_bytes",
    "pantheon_untaken_bytes",
)
"""Functions that return an int64."""

_ERROR_BYTES: Final = 256
"""Of the longest message; one that is longer is cut."""


class InstructionSet(IntEnum):
    """Whose instructions the kernels use; the numbers are those of `instruction_sets.h`."""

    BEST = 0
    PORTABLE = 1
    AVX2 = 2
    AVX512 = 3
    VNNI = 4


@dataclass(frozen=True, slots=True)
class NativeLibrary:
    """The library of this process.

    Attributes:
        missing: why it cannot be used, in words; None where it can.
        handle: the loaded library; None where it is missing.
    """

    missing: str | None
    handle: ctypes.CDLL | None = None

    @property
    def best(self) -> InstructionSet:
        """The best instruction set that the processor has."""
        return InstructionSet(self._loaded.pantheon_best_instruction_set())

    def has(self, wanted: InstructionSet) -> bool:
        """Whether the processor and the build have an instruction set."""
        return bool(self._loaded.pantheon_has_instruction_set(ctypes.c_int64(wanted)))

    def block_bytes(self, format: int, columns: int) -> int:
        """Bytes of a block of 32 rows as the kernels read it; 0 for a shape that they refuse."""
        arguments = (ctypes.c_int64(format), ctypes.c_int64(columns))
        return int(self._loaded.pantheon_block_bytes(*arguments))

    def interleaves(self, source: str) -> bool:
        """Whether rows of a type are among those of `interleave`.

        Args:
            source: the ggml type, or INT8.
        """
        return bool(self._loaded.pantheon_has_source(source.encode()))

    def interleave(
        self,
        source: str,
        packed: NDArray[np.uint8],
        columns: int,
        out: NDArray[np.uint8],
    ) -> None:
        """Write rows as blocks of 32 (`native/layout.h`); rows that fill the last up are zeros.

        Other Python threads run meanwhile, and steps of other models come in between.

        Args:
            source: the ggml type of the rows, or INT8.
            packed: uint8 [rows, bytes of a row], as the file has it.
            columns: values of a row.
            out: uint8 [blocks, bytes of a block].

        Raises:
            ValueError: these do not fit together, or the type is not among those there are.
        """
        for array in (packed, out):
            if not array.flags.c_contiguous:
                raise ValueError(f"expected contiguous arrays, got strides {array.strides}")
        if not out.flags.writeable:
            raise ValueError("expected blocks that can be written, got some that cannot")
        error = ctypes.create_string_buffer(_ERROR_BYTES)
        done = self._loaded.pantheon_interleave(
            ctypes.c_char_p(source.encode()),
            ctypes.c_void_p(packed.ctypes.data),
            ctypes.c_int64(packed.nbytes),
            ctypes.c_int64(len(packed)),
            ctypes.c_int64(columns),
            ctypes.c_void_p(out.ctypes.data),
            ctypes.c_int64(out.nbytes),
            error,
            ctypes.c_int64(len(error)),
        )
        if not done:
            raise ValueError(error.value.decode(errors="replace"))

    def untaken_bytes(self) -> int:
        """Bytes of arrays of zeros that are promised and whose memory is not taken yet."""
        return int(self._loaded.pantheon_untaken_bytes())

    def stop_taking(self) -> None:
        """Take no more memory for arrays of zeros than is taken: some of them go."""
        self._loaded.pantheon_stop_taking()

    def set_threads(self, count: int) -> None:
        """Compute with so many threads from now on; 0 for one on each usable processor."""
        self._loaded.pantheon_set_threads(ctypes.c_int(count))

    @property
    def _loaded(self) -> ctypes.CDLL:
        if self.handle is None:
            raise RuntimeError(f"the native kernels are missing: {self.missing}")
        return self.handle


@cache
def native_library() -> NativeLibrary:
    """Load the library and start its threads, once in a process.

    Whatever is wrong with it makes it missing: without it the same answers take longer.
    """
    if jax.default_backend() != "cpu":
        return NativeLibrary(f"they are for CPUs, and the backend is {jax.default_backend()}")
    path = _newest_usable(_FOLDER, _ffi_version())
    if path is None:
        return NativeLibrary("they were not built; `python native/build.py` builds them")
    try:
        handle = ctypes.CDLL(str(path))
        for name in _NUMBERS:
            handle[name].restype = ctypes.c_int64
        for name in _BOOLEAN:
            handle[name].restype = ctypes.c_bool
        for name in _OPERATIONS:
            capsule = jax.ffi.pycapsule(handle[name])  # type: ignore[no-untyped-call]
            jax.ffi.register_ffi_target(name, capsule, platform="cpu")
        if not handle.pantheon_start():
            return NativeLibrary("the system gives no threads")
    except (OSError, AttributeError, RuntimeError) as error:
        return NativeLibrary(f"{path.name} cannot be used: {error!s:.200}")
    return NativeLibrary(None, handle)


def _newest_usable(folder: Path, runtime: tuple[int, int]) -> Path | None:
    """The library that was built for the newest FFI that the installed JAX knows."""
    found = {
        (int(match[1]), int(match[2])): path
        for path in folder.iterdir()
        if (match := _NAME.fullmatch(path.name))
    }
    usable = [version for version in found if version[0] == runtime[0] and version <= runtime]
    return found[max(usable)] if usable else None


def _ffi_version() -> tuple[int, int]:
    header = Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h"
    text = header.read_text(encoding="utf-8")
    major, minor = (
        re.search(rf"^#define XLA_FFI_API_{part} (\d+)$", text, re.MULTILINE)
        for part in ("MAJOR", "MINOR")
    )
    if major is None or minor is None:
        raise RuntimeError(f"expected the version of the FFI in {header.name}")
    return int(major[1]), int(minor[1])
