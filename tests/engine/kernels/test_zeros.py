"""Arrays of zeros, whatever their memory held before."""

from __future__ import annotations

import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pantheon.engine.kernels.native import native_library
from pantheon.engine.kernels.zeros import zeros

needs_library = pytest.mark.skipif(
    native_library().missing is not None, reason=f"{native_library().missing}"
)
_SHAPES = st.lists(
    st.lists(st.integers(0, 40), min_size=1, max_size=4).map(tuple)
    | st.tuples(st.integers(0, 2_000_000)),
    max_size=4,
)


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


@needs_library
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.int32, jnp.bfloat16, jnp.uint8])
@settings(max_examples=15, deadline=None)
@given(shapes=_SHAPES)
def test_native_zeros_are_those_of_numpy(dtype: jnp.dtype, shapes: list[tuple[int, ...]]) -> None:
    """Memory that was given back by arrays of ones is taken again."""
    ones = [jnp.ones(shape, dtype) for shape in shapes]
    jax.block_until_ready(ones)
    del ones
    made = zeros(shapes, jnp.dtype(dtype), native=True)
    for array, shape in zip(made, shapes, strict=True):
        assert (array.shape, array.dtype) == (shape, dtype)
        np.testing.assert_array_equal(np.asarray(array), np.zeros(shape, dtype))


@needs_library
def test_arrays_that_are_alike_are_not_the_same() -> None:
    """A step that was given one of them writes to it alone."""
    first, second = zeros([(1000, 1000)] * 2, jnp.dtype(jnp.float32), native=True)
    write = jax.jit(lambda x: x.at[0].set(1), donate_argnums=0)
    written = write(first)
    assert float(written.sum()) == 1000
    assert float(second.sum()) == 0


@needs_library
def test_their_memory_is_soon_taken_and_keeps_what_was_written() -> None:
    """What other models may use is known before these are."""
    size = 256 << 20
    before = _resident_bytes()
    (array,) = zeros([(size // 4,)], jnp.dtype(jnp.float32), native=True)
    write = jax.jit(lambda x: x.at[::1_000_000].set(1), donate_argnums=0)
    array = write(array)
    deadline = time.monotonic() + 60
    while _resident_bytes() < before + size * 9 // 10:
        assert time.monotonic() < deadline, "the memory was not touched"
        time.sleep(0.05)
    assert float(array.sum()) == -(-size // 4 // 1_000_000)


@needs_library
def test_what_is_not_taken_yet_is_told() -> None:
    """Nobody else may plan with it: the system counts it as free."""
    library = native_library()
    _wait_until_all_is_taken()
    size = 512 << 20
    (array,) = zeros([(size,)], jnp.dtype(jnp.uint8), native=True)
    jax.block_until_ready(array)
    assert 0 < library.untaken_bytes() <= size
    _wait_until_all_is_taken()


@needs_library
def test_no_memory_is_taken_for_arrays_that_go() -> None:
    library = native_library()
    _wait_until_all_is_taken()
    (array,) = zeros([(2 << 30,)], jnp.dtype(jnp.uint8), native=True)
    jax.block_until_ready(array)
    assert library.untaken_bytes() > 1 << 30
    library.stop_taking()
    array.delete()
    _wait_until_all_is_taken(seconds=2)


def _wait_until_all_is_taken(seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while native_library().untaken_bytes():
        assert time.monotonic() < deadline, "memory is still not taken"
        time.sleep(0.02)


def test_without_the_library_there_are_zeros_too() -> None:
    made = zeros([(3, 4), ()], jnp.dtype(jnp.int32), native=False)
    assert [np.asarray(array).tolist() for array in made] == [np.zeros((3, 4)).tolist(), 0]
