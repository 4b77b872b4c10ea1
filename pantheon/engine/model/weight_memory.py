"""Memory for the matrices of the layers of one model, in one piece."""

from __future__ import annotations

import mmap
from typing import Final

import jax
import numpy as np
from jaxtyping import Array, UInt8
from numpy.typing import NDArray

from pantheon.engine.kernels.packed_matmul import ALIGNMENT

_HUGE_PAGE: Final = 2 << 20


class WeightMemory:
    """Matrices one behind another in memory of huge pages, where the system has them.

    A step reads all weights in order: with small pages it waits for the processor's tables of
    pages, and given as one array they cost a step one argument instead of hundreds. The memory is
    given back when no array refers to it any more.
    """

    def __init__(self, most_bytes: int) -> None:
        """Ask for address space; memory is taken where something is put.

        Args:
            most_bytes: of all matrices together.
        """
        # Private: shared memory has no huge pages unless the system was told so.
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        memory = mmap.mmap(-1, most_bytes + _HUGE_PAGE, flags)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE)
        whole = np.frombuffer(memory, np.uint8)
        start = -whole.ctypes.data % _HUGE_PAGE
        self._memory: NDArray[np.uint8] = whole[start : start + most_bytes]
        self._used = 0

    def take(self, rows: int, columns: int) -> tuple[NDArray[np.uint8], int]:
        """Memory of a matrix of bytes, which `jax.device_put` takes over, and where it begins.

        Raises:
            ValueError: there is not so much left.
        """
        begin, size = self._used, rows * columns
        if begin + size > len(self._memory):
            left = len(self._memory) - begin
            raise ValueError(f"expected at most {left} more bytes of weights, got {size}")
        self._used += size + -size % ALIGNMENT
        return self._memory[begin : begin + size].reshape(rows, columns), begin

    def array(self) -> UInt8[Array, " bytes"]:
        """All that was put there, as one array that shares the memory of the single ones."""
        whole: jax.Array = jax.device_put(self._memory[: self._used])
        return whole
