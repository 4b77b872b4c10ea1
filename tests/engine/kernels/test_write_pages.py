"""What is written to pages, by XLA and by the native kernels, against numpy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pantheon.engine.kernels.native import InstructionSet, native_library
from pantheon.engine.kernels.paged_attention import write_pages
from pantheon.engine.kernels.paged_attention.native import native_write

_LIBRARY = native_library()
_WRITES: list[Callable[..., tuple[jax.Array, jax.Array]]] = [write_pages]
if _LIBRARY.missing is None:
    _WRITES += [
        partial(native_write, instruction_set=one)
        for one in InstructionSet
        if one is not InstructionSet.BEST and _LIBRARY.has(one)
    ]
_SHAPE = (5, 2, 8, 11)
"""Pages, KV heads, tokens of a page, dimensions of a head."""


def _all_kinds_of_numbers(count: int) -> np.ndarray:
    """Float32 whose float16 are normal, subnormal, zero, too large, and no number."""
    bits = np.random.default_rng(5).integers(0, 2**32, count, dtype=np.uint32)
    numbers = bits.view(np.float32)
    special = [65519.996, 65520, -65520, 1e9, 6e-8, 2.9e-8, 3e-8, -6.1e-5, 0, -0.0, np.inf, np.nan]
    small = np.random.default_rng(6).uniform(-1e-4, 1e-4, count // 3)
    ties = 1 + np.arange(count // 3) * 2.0**-11
    numbers[: count // 3], numbers[-(count // 3) :] = small, ties
    numbers[: len(special)] = special
    return numbers


@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
@pytest.mark.parametrize("write", _WRITES)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_each_token_is_stored_in_its_place(
    write: Callable[..., tuple[jax.Array, jax.Array]], dtype: type
) -> None:
    random = np.random.default_rng(1)
    held = [random.standard_normal(_SHAPE, np.float32).astype(dtype) for _ in range(2)]
    new = _all_kinds_of_numbers(2 * 3 * 4 * 2 * 11).reshape(2, 3, 4, 2, 11)
    pages = np.array([[4, 0, 0, 5], [2, 2, 5, 1], [3, 5, 5, 5]], np.int32)
    offsets = np.array([[0, 7, 2, 3], [1, 2, 2, 7], [5, 0, 1, 2]], np.int32)
    expected = [part.copy() for part in held]
    for part, fresh in zip(expected, new, strict=True):
        for place in np.ndindex(*pages.shape):
            if pages[place] < _SHAPE[0]:
                stored = fresh[place].astype(dtype)
                if dtype == np.float16:
                    stored[np.isinf(stored)] = np.nan
                part[pages[place], :, offsets[place]] = stored
    found = jax.jit(write)(*map(jnp.asarray, (*held, *new, pages, offsets)))
    for part, one in zip(expected, found, strict=True):
        assert one.dtype == dtype
        np.testing.assert_array_equal(np.asarray(one), part)


@pytest.mark.skipif(_LIBRARY.missing is not None, reason=f"no native kernels: {_LIBRARY.missing}")
def test_a_step_that_owns_its_pages_copies_none() -> None:
    def step(pages: tuple[jax.Array, jax.Array], new: jax.Array, at: jax.Array) -> object:
        for _ in range(3):
            pages = native_write(*pages, new, new, at, at)
        return pages

    pages = tuple(jnp.zeros((1000, 2, 8, 16), jnp.float32) for _ in range(2))
    new, at = jnp.ones((1, 4, 2, 16), jnp.float32), jnp.zeros((1, 4), jnp.int32)
    compiled = jax.jit(step, donate_argnums=0).lower(pages, new, at).compile()
    analysis = compiled.memory_analysis()
    assert analysis is not None
    assert analysis.temp_size_in_bytes < pages[0].nbytes / 100


@pytest.mark.skipif(_LIBRARY.missing is not None, reason=f"no native kernels: {_LIBRARY.missing}")
@pytest.mark.parametrize(("page", "offset"), [(6, 0), (-1, 0), (0, 8), (0, -1)])
def test_a_place_that_is_none_fails_the_step(page: int, offset: int) -> None:
    held = jnp.zeros(_SHAPE, jnp.float32)
    new = jnp.zeros((1, 1, _SHAPE[1], _SHAPE[3]), jnp.float32)
    at = (jnp.full((1, 1), page), jnp.full((1, 1), offset))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"expected an? (page|offset)"):
        jax.block_until_ready(native_write(held, held, new, new, *at))
