"""The interleaved layout by the native library against the one in numpy (`layouts.py`), of which
`test_products.py` shows that the kernels read ggml's values out of it."""

from __future__ import annotations

from collections.abc import Iterator

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray

from pantheon.engine.gguf import TensorType, block_layout
from pantheon.engine.kernels.native import NativeLibrary, native_library
from pantheon.engine.kernels.packed_matmul import (
    format_of,
    interleaved,
    interleaved_shape,
    interleaving,
    layouts,
)
from pantheon.engine.kernels.packed_matmul.codebooks import CODEBOOK_TYPES
from pantheon.engine.model.dequantize.int8 import row_bytes
from tests.engine.kernels.packed_matmul.packed_matrices import SOURCES, sample

_LIBRARY = native_library()
_NATIVE = pytest.mark.skipif(
    _LIBRARY.missing is not None, reason=f"no native kernels: {_LIBRARY.missing}"
)
_OWN = tuple(source for source in SOURCES if source not in CODEBOOK_TYPES)
_GUARD = 0xA5


@pytest.fixture(autouse=True)
def own_threads() -> Iterator[None]:
    yield
    if _LIBRARY.missing is None:
        _LIBRARY.set_threads(0)


def _bytes_of_row(source: str, columns: int) -> int:
    if source == "INT8":
        return row_bytes(columns)
    values, size = block_layout(TensorType[source])
    return columns // values * size


def _drawn(source: str, rows: int, columns: int, seed: int) -> NDArray[np.uint8]:
    """Rows of bytes of any kind: every code, scales that are no numbers among them."""
    size = (rows, _bytes_of_row(source, columns))
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


def _span(source: str) -> int:
    return next(width for width in (32, 64, 256) if format_of(source, width) is not None)


@_NATIVE
def test_every_type_without_a_codebook_is_the_librarys() -> None:
    assert [source for source in SOURCES if _LIBRARY.interleaves(source)] == list(_OWN)


@_NATIVE
@pytest.mark.parametrize("source", _OWN)
@settings(max_examples=25, deadline=None)
@given(rows=st.integers(1, 130), spans=st.integers(1, 7), seed=st.integers(0, 2**32 - 1))
def test_blocks_are_those_of_numpy(source: str, rows: int, spans: int, seed: int) -> None:
    """Of random bytes, also where rows do not fill a block, and nothing around them is written."""
    columns = spans * _span(source)
    packed = _drawn(source, rows, columns, seed)
    expected = layouts.interleaved(source, packed, columns)
    around = np.full(expected.nbytes + 128, _GUARD, np.uint8)
    out = around[64:-64].reshape(expected.shape)
    _LIBRARY.interleave(source, packed, columns, out)
    np.testing.assert_array_equal(out, expected)
    assert (around[:64] == _GUARD).all()
    assert (around[-64:] == _GUARD).all()


@_NATIVE
@pytest.mark.parametrize("source", ["Q4_1", "Q8_0", "Q4_K", "Q6_K", "F32"])
@pytest.mark.parametrize("shape", [(2500, 256), (100, 8192)])
@pytest.mark.parametrize("threads", [1, 3])
def test_parts_of_a_large_matrix_come_together(
    source: str, shape: tuple[int, int], threads: int
) -> None:
    """More values than the threads are taken for at once, in many rows and in long ones."""
    packed = _drawn(source, *shape, seed=1)
    _LIBRARY.set_threads(threads)
    found = interleaved(source, packed, shape[1])
    np.testing.assert_array_equal(found, layouts.interleaved(source, packed, shape[1]))


@_NATIVE
def test_rows_apart_in_memory_are_brought_together() -> None:
    packed = _drawn("Q4_0", 80, 64, seed=2)
    expected = layouts.interleaved("Q4_0", np.ascontiguousarray(packed[::2]), 64)
    np.testing.assert_array_equal(interleaved("Q4_0", packed[::2], 64), expected)


@_NATIVE
def test_no_rows_are_no_blocks() -> None:
    nothing = np.empty((0, 18), np.uint8)
    assert interleaved("Q4_0", nothing, 32).shape == (0, 576)


@pytest.mark.parametrize("source", ["Q4_1", "IQ2_XS"])
def test_a_process_without_the_library_has_the_same_blocks(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = sample(source, 70, 512)
    expected = interleaved(source, packed.packed, 512)
    monkeypatch.setattr(interleaving, "native_library", lambda: NativeLibrary("none, for a test"))
    np.testing.assert_array_equal(interleaved(source, packed.packed, 512), expected)


@_NATIVE
@pytest.mark.parametrize(
    ("source", "columns", "rows", "row_bytes", "blocks", "message"),
    [
        ("Q4_K", 512, 40, 287, 2, "bytes of the rows of Q4_K: expected 11520, got 11480"),
        ("Q4_K", 512, 65, 288, 2, "bytes of their blocks: expected 28416, got 18944"),
        ("Q4_K", 512, 40, 288, 1, "bytes of their blocks: expected 18944, got 9472"),
        ("Q4_K", 320, 40, 180, 2, "columns of Q4_K: expected a multiple of 256, got 320"),
        ("Q4_K", 0, 40, 288, 2, "columns of Q4_K: expected a multiple of 256, got 0"),
        ("Q4_K", -256, 40, 288, 2, "columns of Q4_K: expected a multiple of 256, got -256"),
        ("F32", 2**62, 40, 288, 2, "expected a matrix that fits in memory, got 40 x 46116860"),
        ("IQ1_S", 512, 40, 100, 2, "expected a type that is interleaved, got 'IQ1_S'"),
        ("", 512, 40, 288, 2, "expected a type that is interleaved, got ''"),
        ("Q" * 999, 512, 40, 288, 2, "expected a type that is interleaved, got 'QQQ"),
    ],
)
def test_what_does_not_fit_together_is_an_error(
    source: str, columns: int, rows: int, row_bytes: int, blocks: int, message: str
) -> None:
    """At the boundary, and never a read or a write outside an array."""
    packed = np.zeros((rows, row_bytes), np.uint8)
    out = np.zeros((blocks, 9472), np.uint8)
    with pytest.raises(ValueError, match=message):
        _LIBRARY.interleave(source, packed, columns, out)
    assert not out.any()


@_NATIVE
def test_arrays_that_are_not_whole_pieces_of_memory_are_an_error() -> None:
    packed, out = np.zeros((64, 18), np.uint8), np.zeros((1, 576), np.uint8)
    with pytest.raises(ValueError, match=r"expected contiguous arrays, got strides \(36"):
        _LIBRARY.interleave("Q4_0", packed[::2], 32, out)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="expected blocks that can be written"):
        _LIBRARY.interleave("Q4_0", packed[:32], 32, out)


@_NATIVE
@pytest.mark.parametrize("source", _OWN)
def test_blocks_have_the_shape_that_is_foretold(source: str) -> None:
    """Which says how much memory a load takes."""
    columns = 3 * _span(source)
    format = format_of(source, columns)
    assert format is not None
    found = interleaved(source, _drawn(source, 33, columns, seed=3), columns)
    assert found.shape == interleaved_shape(format, 33, columns)
