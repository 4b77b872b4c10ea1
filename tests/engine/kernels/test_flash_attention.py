"""The Pallas attention kernels, interpreted, against textbook attention in float64.

Everything that a GPU is asked for is the same but the order of sums within a tile.
"""

from __future__ import annotations

import functools
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax._src.mesh import AbstractDevice
from jax.sharding import AbstractMesh, use_abstract_mesh

from pantheon.engine.kernels.implementation import Implementation
from pantheon.engine.kernels.paged_attention import paged_attention
from pantheon.engine.kernels.paged_attention.cases import CASES, Case
from pantheon.engine.kernels.paged_attention.flash_decode import DecodeTiles, flash_decode
from pantheon.engine.kernels.paged_attention.flash_prefill import PrefillTiles, flash_prefill
from tests.engine.kernels.textbook_attention import softmax_attention

_MORE = (
    Case("decode of rows in parts", 1, 6, 2, 32, 64, (700, 0, 256, 257)),
    Case("decode in a window over parts", 1, 4, 2, 16, 8, (900, 300), window=400),
    Case("decode of many heads of 96 dimensions to a key head", 1, 20, 1, 96, 16, (70, 3)),
    Case("prefill of a whole chunk in pages that tiles do not divide", 128, 3, 1, 20, 96, (300,)),
    Case("prefill of several rows", 19, 4, 2, 24, 16, (19, 40, 0)),
    Case("prefill in a window less than a tile", 70, 2, 1, 16, 64, (200,), window=7),
)
_CASES = (*CASES, *_MORE)
_DECODE = tuple(case for case in _CASES if case.time == 1)
_PREFILL = tuple(case for case in _CASES if case.time > 1)
# What is compiled runs for milliseconds.
_compiled = functools.partial(
    jax.jit,
    static_argnames=("scale", "window", "tiles", "interpret"),
    compiler_options={"xla_backend_optimization_level": 0},
)
_decode, _prefill = _compiled(flash_decode), _compiled(flash_prefill)


def _flash(case: Case, arguments: tuple[np.ndarray, ...], **more: Any) -> np.ndarray:
    kernel = _decode if case.time == 1 else _prefill
    scale, window = case.head_dim**-0.5, case.window
    return np.asarray(
        kernel(*map(jnp.asarray, arguments), scale=scale, window=window, interpret=True, **more)
    )


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.name)
def test_equals_textbook_attention(case: Case) -> None:
    arguments = case.arguments()
    found = _flash(case, arguments)
    np.testing.assert_allclose(found, softmax_attention(case, arguments), atol=2e-6)
    for row, length in enumerate(case.lengths):
        if not length:
            np.testing.assert_array_equal(found[row], 0)


@pytest.mark.parametrize("poison", [np.nan, np.inf])
@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.name)
def test_what_others_left_in_the_last_page_changes_nothing(case: Case, poison: float) -> None:
    """Pages are reused as they are; a restored session may have put anything into them."""
    arguments = case.arguments()
    expected = _flash(case, arguments)
    _, keys, values, tables, _, lengths = arguments
    for row, length in enumerate(lengths):
        used = length % case.page_size
        if used:
            page = tables[row, length // case.page_size]
            keys[page, :, used:] = values[page, :, used:] = poison
    np.testing.assert_array_equal(_flash(case, arguments), expected)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("part", ["query", "keys", "values"])
@pytest.mark.parametrize("case", [_MORE[0], _MORE[4]], ids=lambda case: case.name)
def test_what_is_no_number_stays_visible(case: Case, part: str, bad: float) -> None:
    """The finite check of a step looks for it: it must not turn into a number on the way."""
    query, keys, values, tables, *rest = case.arguments()
    page = tables[0, 0]
    query, keys, values = np.abs(query), np.abs(keys), np.abs(values)
    held = {"query": query[0, -1, 0], "keys": keys[page, 0, 5], "values": values[page, 0, 5]}[part]
    held[3] = bad
    found = _flash(case, (query, keys, values, tables, *rest))
    assert not np.isfinite(found[0, -1]).all()
    assert np.isfinite(found[1:]).all()


@pytest.mark.parametrize(
    ("case", "dtype", "tolerance"),
    [(CASES[1], np.float16, 1e-3), (CASES[6], ml_dtypes.bfloat16, 8e-3)],
    ids=["decode of float16", "prefill of bfloat16"],
)
def test_weights_and_queries_have_the_precision_of_the_pages(
    case: Case, dtype: Any, tolerance: float
) -> None:
    query, keys, values, *rest = case.arguments()
    query = query.astype(dtype).astype(np.float32)
    arguments = (query, keys.astype(dtype), values.astype(dtype), *rest)
    found = _flash(case, arguments)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, softmax_attention(case, arguments), atol=tolerance)


def test_a_query_that_float16_cannot_hold_has_no_numbers() -> None:
    """By its score of minus infinity every key would be passed over, and zeros would come out."""
    query, keys, values, *rest = CASES[1].arguments()
    query[0, 0, 0, 0], keys[..., 0] = 1e5, -np.abs(keys[..., 0])
    keys, values = keys.astype(np.float16), values.astype(np.float16)
    found = _flash(CASES[1], (query, keys, values, *rest))
    assert np.isnan(found[0, 0, 0]).all()
    assert np.isfinite(found[1:]).all()


@pytest.mark.parametrize("case", [CASES[1], _MORE[4]], ids=lambda case: case.name)
def test_a_row_is_bitwise_the_same_alone_in_company_and_in_a_wider_table(case: Case) -> None:
    query, keys, values, tables, positions, lengths = case.arguments()
    together = _flash(case, (query, keys, values, tables, positions, lengths))
    # The page of NaN, which Case puts past a sequence's end.
    wide = np.pad(tables, ((0, 0), (0, 37)), constant_values=len(keys) - 1)
    for row in range(len(case.lengths)):
        one = slice(row, row + 1)
        alone = _flash(case, (query[one], keys, values, wide[one], positions[one], lengths[one]))
        np.testing.assert_array_equal(alone[0], together[row])


@pytest.mark.parametrize("bounds", [(0, 20), (0, 7), (5, 20), (9, 9)])
def test_tokens_of_a_chunk_that_are_not_live_are_zeros_and_change_no_other(
    bounds: tuple[int, int],
) -> None:
    case = CASES[4]
    arguments = case.arguments()
    expected = softmax_attention(case, arguments)[0]
    expected[: bounds[0]] = expected[bounds[1] :] = 0
    found = _flash(case, arguments, live=jnp.array(bounds, jnp.int32))[0]
    np.testing.assert_allclose(found, expected, atol=2e-6)
    np.testing.assert_array_equal(found[: bounds[0]], 0)
    np.testing.assert_array_equal(found[bounds[1] :], 0)


def _drawn(
    time: int, window: int, lengths: tuple[int, ...], seed: int
) -> tuple[Case, tuple[np.ndarray, ...]]:
    """A case whose arrays have the same shapes whatever the lengths, 96 at most."""
    case = Case("drawn", time, 4, 2, 16, 8, lengths, window)
    query, keys, values, tables, *rest = case.arguments(seed)
    more = 12 * len(lengths) + 1 - len(keys)
    keys, values = (
        np.pad(held, ((0, more), (0, 0), (0, 0), (0, 0)), constant_values=np.nan)
        for held in (keys, values)
    )
    tables = np.pad(tables, ((0, 0), (0, 14 - tables.shape[1])), constant_values=len(keys) - 1)
    return case, (query, keys, values, tables, *rest)


@settings(max_examples=40, deadline=None)
@given(lengths=st.tuples(*[st.integers(0, 96)] * 3), seed=st.integers(0, 99))
def test_decode_of_rows_of_any_length(lengths: tuple[int, ...], seed: int) -> None:
    case, arguments = _drawn(1, 21, lengths, seed)
    found = _flash(case, arguments, tiles=DecodeTiles(part=16, merged=2))
    np.testing.assert_allclose(found, softmax_attention(case, arguments), atol=2e-6)


@settings(max_examples=40, deadline=None)
@given(
    lengths=st.tuples(*[st.just(0) | st.integers(20, 96)] * 2),
    seed=st.integers(0, 99),
)
def test_prefill_of_chunks_that_end_anywhere(lengths: tuple[int, ...], seed: int) -> None:
    case, arguments = _drawn(20, 0, lengths, seed)
    found = _flash(case, arguments, tiles=PrefillTiles(queries=16))
    np.testing.assert_allclose(found, softmax_attention(case, arguments), atol=2e-6)


@pytest.mark.filterwarnings("ignore:The Pallas Triton backend:DeprecationWarning")
@pytest.mark.parametrize(
    ("case", "kernels"), [(CASES[1], 2), (CASES[3], 1)], ids=["decode", "prefill"]
)
def test_a_gpu_is_given_the_kernels(case: Case, kernels: int) -> None:
    """Lowered as for an H200, which needs no GPU; Triton takes fewer operations than XLA."""
    device = AbstractDevice("NVIDIA H200", None, "cuda")
    attention = jax.jit(
        functools.partial(
            paged_attention, scale=0.125, window=21, implementation=Implementation.GPU
        )
    )
    with use_abstract_mesh(AbstractMesh((1,), ("devices",), abstract_device=device)):
        lowered = attention.trace(*case.arguments()).lower(lowering_platforms=("cuda",))
    assert lowered.as_text().count("custom_call @__gpu$xla.gpu.triton(") == kernels


def test_a_start_without_a_gpu_does_not_import_pallas() -> None:
    """It would take a fifth of a second of every start (ARCHITECTURE, "A start")."""
    code = (
        "import sys, pantheon.engine.registry; "
        "sys.exit(any(name.startswith('jax.experimental.pallas') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
