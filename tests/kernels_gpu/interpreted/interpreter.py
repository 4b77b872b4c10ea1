"""Triton's interpreter over numpy's arrays. It expects tensors of PyTorch, of which it uses these
few methods: to copy arguments to the host, where they are, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from pantheon.engine.kernels.triton_launch import TritonLaunch


class _Tensor:
    def __init__(self, array: np.ndarray | None) -> None:
        self.array = array

    @property
    def held(self) -> np.ndarray:
        assert self.array is not None
        return self.array

    @property
    def dtype(self) -> str:
        return self.held.dtype.name

    @property
    def shape(self) -> tuple[int, ...]:
        return self.held.shape

    def data_ptr(self) -> int:
        return int(self.held.ctypes.data)

    def element_size(self) -> int:
        return int(self.held.itemsize)

    def size(self) -> tuple[int, ...]:
        return self.held.shape

    def stride(self) -> tuple[int, ...]:
        return tuple(step // self.held.itemsize for step in self.held.strides)

    def storage_offset(self) -> int:
        return 0

    def untyped_storage(self) -> _Tensor:
        return self

    def cpu(self) -> _Tensor:
        return self

    def new_empty(self, *_: Any, **__: Any) -> _Tensor:
        return _Tensor(None)

    def set_(self, storage: _Tensor, *_: Any) -> None:
        self.array = storage.array

    def copy_(self, other: _Tensor) -> None:
        """Nothing to do: both are the same memory."""
        assert other.array is self.array


def interpreted(launch: TritonLaunch, *arrays: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """What a launch writes, float32 of a shape; NaN where it writes nothing."""
    written = np.full(shape, np.nan, np.float32)
    held = [_Tensor(np.ascontiguousarray(array)) for array in (*arrays, written)]
    launch.function[launch.grid](*held, **launch.constants)
    return written
